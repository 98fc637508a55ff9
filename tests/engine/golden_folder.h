// The golden checkpoints of tests/data/backend as model folders, and their prompts as requests.

#ifndef RSERVE_TESTS_ENGINE_GOLDEN_FOLDER_H_
#define RSERVE_TESTS_ENGINE_GOLDEN_FOLDER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "rserve/cc/model_engine.h"
#include "tests/engine/tiny_model.h"

namespace rserve::testing {

// A prompt with the reference's numbers. Its pictures come as the reference's embeddings, since
// their pixels are made-up patches that no picture gives.
struct GoldenPrompt {
  std::vector<int32_t> token_ids;
  std::vector<float> logits;      // of the last token, the checkpoint's own vocabulary
  std::vector<float> embeddings;  // of all pictures
  ModelRequest request;           // borrows `embeddings`
};

// A golden checkpoint with what the engine needs beside it: a tokenizer, whose bytes are 256 tokens
// more than the checkpoint has, and a processor's configuration.
class GoldenFolder {
 public:
  // `name`: as tests/data/backend has it. A failure ends the test.
  explicit GoldenFolder(const std::string& name);
  const std::string& path() const { return folder_.path(); }
  const std::vector<GoldenPrompt>& prompts() const { return prompts_; }

 private:
  TempFolder folder_;
  std::vector<GoldenPrompt> prompts_;
};

// All prompts at once through an engine that `options` describes, whose model is the folder and
// whose topology is called so: they finish within `tolerance` of the reference. Their logits, a
// vocabulary each.
std::vector<std::vector<float>> MeetGoldens(const GoldenFolder& golden, ModelEngineOptions options,
                                            const std::string& topology, double tolerance);

}  // namespace rserve::testing

#endif  // RSERVE_TESTS_ENGINE_GOLDEN_FOLDER_H_
