// The golden checkpoints of tests/data/backend and ways to run them through the CPU backend.

#ifndef RSERVE_TESTS_BACKEND_GOLDEN_CASE_H_
#define RSERVE_TESTS_BACKEND_GOLDEN_CASE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "src/backend/backend.h"
#include "src/backend/cpu/cpu_model.h"
#include "src/model/spec/image_plan.h"
#include "tests/support/numbers.h"

namespace rserve::testing {

struct Prompt {
  std::vector<int32_t> token_ids;
  std::vector<int32_t> positions[3];
  std::vector<model::Grid> grids;
  std::vector<int64_t> item_begin;          // first token of each image
  std::vector<std::vector<float>> patches;  // an image each
  std::vector<float> embeddings;            // the reference's, images one after another
  std::vector<float> logits;                // the reference's, of the last token
  int64_t tokens() const { return static_cast<int64_t>(token_ids.size()); }
};

struct GoldenCase {
  std::string name;
  model::ModelConfig config;
  std::shared_ptr<const cpu::CpuModel> model;
  std::vector<Prompt> prompts;
};

// All case names, and one of them loaded (fails the test when it cannot be).
std::vector<std::string> CaseNames();
GoldenCase LoadCase(const std::string& name, cpu::ThreadPool* pool = nullptr,
                    cpu::WeightFormat weights = cpu::WeightFormat::kStored);

// A folder's config.json, parsed.
model::ModelConfig LoadConfig(const std::string& folder);
std::string CaseFolder(const std::string& name);

// Encodes each image of a prompt; outputs begin as NaN. The whole prompt in one batch, or one by
// one.
std::vector<std::vector<float>> EncodeItems(backend::EncoderBackend& encoder,
                                            const GoldenCase& golden, const Prompt& prompt,
                                            bool together);

// Fills the encoder's scratch with NaN.
void PoisonEncoder(backend::EncoderBackend& encoder, const GoldenCase& golden);

// A prompt on its way through the stages.
struct Sequence {
  const Prompt* prompt = nullptr;
  std::vector<std::vector<float>> items;  // embeddings
  // Instead of `items`, those that the backend has; they live as long as the sequence.
  std::vector<const backend::StoredRows*> stored;
  std::vector<int32_t> blocks;
  int64_t done = 0;
  std::vector<float> logits;  // NaN until the last chunk ran
  bool finished() const { return done == prompt->tokens(); }
};

// The stages of one model with a pool and a cache of their own.
class Pipeline {
 public:
  // `cuts`: layers at which a new stage begins.
  Pipeline(const GoldenCase& golden, const std::vector<int32_t>& cuts, cpu::KvGeometry kv,
           int threads);
  // Over stages that were made elsewhere.
  Pipeline(const GoldenCase& golden, cpu::KvGeometry kv,
           std::vector<std::unique_ptr<backend::StageBackend>> stages);

  // Fills caches and scratch with NaN.
  void Poison();
  // A sequence over the blocks [first_block, ...), permuted by `seed` (0: in order).
  Sequence Begin(const Prompt& prompt, std::vector<std::vector<float>> items, int32_t first_block,
                 uint32_t seed) const;
  // One micro-batch: the next counts[i] tokens of sequences[i] (0: not in it).
  void Step(const std::vector<Sequence*>& sequences, const std::vector<int64_t>& counts);
  // Runs one sequence in chunks of `chunk` tokens and returns its logits.
  std::vector<float> Run(Sequence sequence, int64_t chunk);

  backend::StageBackend& stage(int i) { return *stages_[static_cast<size_t>(i)]; }

 private:
  const GoldenCase& golden_;
  cpu::KvGeometry kv_;
  cpu::ThreadPool pool_;
  std::vector<std::unique_ptr<backend::StageBackend>> stages_;
  uint64_t micro_batches_ = 0;
};

}  // namespace rserve::testing

#endif  // RSERVE_TESTS_BACKEND_GOLDEN_CASE_H_
