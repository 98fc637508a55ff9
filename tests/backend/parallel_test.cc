// Tensor parallelism on the CPU: ranks as threads, with the golden checkpoints.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "src/backend/cpu/cpu_collective.h"
#include "src/model/weights/checkpoint.h"
#include "tests/backend/golden_case.h"
#include "tests/backend/ranks.h"
#include "tests/backend/text_chunks.h"
#include "tests/support/catch.h"

namespace rserve::testing {
namespace {

constexpr double kTolerance = 1e-4;
constexpr int64_t kMaxTokens = 512;

// Stages of several ranks, `threads` threads each.
struct Ranks {
  Ranks(const GoldenCase& golden, int ranks, const std::vector<int32_t>& cuts,
        const cpu::KvGeometry& kv, int threads) {
    const auto checkpoint = model::Checkpoint::Open(CaseFolder(golden.name));
    REQUIRE(checkpoint.ok());
    std::vector<std::shared_ptr<const cpu::CpuModel>> models;
    for (int32_t rank = 0; rank < ranks; ++rank) {
      cpu::LoadOptions options;
      options.rank = rank;
      options.ranks = ranks;
      if (rank > 0) options.shared = models[0];
      auto model = cpu::CpuModel::Load(golden.config, **checkpoint, options);
      INFO(golden.name << ": " << model.status());
      REQUIRE(model.ok());
      models.push_back(*std::move(model));
    }
    stages = MakeRanks(
        golden.config.text.num_layers, cuts, ranks, kMaxTokens * golden.config.text.hidden_size, 1,
        [&] { return cpu::MakeCpuCollectives(ranks); },
        [&](size_t, backend::LayerRange layers, int32_t rank,
            std::unique_ptr<cpu::CpuCollective> end) {
          pools.push_back(std::make_unique<cpu::ThreadPool>(threads, std::vector<int>{}));
          return cpu::MakeCpuStage(models[static_cast<size_t>(rank)], layers, kv,
                                   pools.back().get(), std::move(end));
        });
  }
  std::vector<std::unique_ptr<cpu::ThreadPool>> pools;  // before what uses them
  std::vector<std::unique_ptr<backend::StageBackend>> stages;
};

// Also that nothing but the number of ranks enters the bits: not the chunks, the threads, the stage
// cut, the run.
void AgreesWithReference(const std::string& name, int ranks, const std::vector<int32_t>& cuts) {
  const GoldenCase golden = LoadCase(name);
  cpu::ThreadPool pool(1, {});
  const auto encoder = cpu::MakeCpuEncoder(golden.model, &pool);
  Ranks plain(golden, ranks, {}, {40, 4}, 1);
  Ranks cut(golden, ranks, cuts, {20, 8}, 2);
  Pipeline one(golden, {40, 4}, std::move(plain.stages));
  Pipeline other(golden, {20, 8}, std::move(cut.stages));
  one.Poison();
  other.Poison();
  for (const Prompt& prompt : golden.prompts) {
    const auto items = EncodeItems(*encoder, golden, prompt, true);
    const std::vector<float> whole = one.Run(one.Begin(prompt, items, 0, 2), prompt.tokens());
    const double error = RelativeError(whole, prompt.logits);
    INFO(name << " TP" << ranks << ": relative error " << error);
    CHECK(error <= kTolerance);
    CHECK(SameBits(one.Run(one.Begin(prompt, items, 0, 3), 5), whole));
    CHECK(SameBits(other.Run(other.Begin(prompt, items, 0, 0), 11), whole));
    CHECK(SameBits(other.Run(other.Begin(prompt, items, 0, 7), prompt.tokens()), whole));
  }
}

TEST_CASE("TP2, TP3, TP4 and TP7 agree with the reference, to the bit for every chunk and cut") {
  AgreesWithReference("mha_f16", 2, {1});
  AgreesWithReference("adjacent", 3, {1});
  AgreesWithReference("mha_f16", 4, {});
  AgreesWithReference("old_names", 4, {1});  // two ranks hold the same key head
  AgreesWithReference("gqa7_bf16", 7, {});   // seven do
}

TEST_CASE("TP2 x PP2 agrees with the reference, tied and untied, in several files") {
  for (const char* name : {"gqa2_tied", "sharded", "patch14"}) AgreesWithReference(name, 2, {1});
}

TEST_CASE("a rank's share of the weights is what it loads, and embeddings are held once") {
  const GoldenCase golden = LoadCase("mha_f16");
  const auto checkpoint = model::Checkpoint::Open(CaseFolder(golden.name));
  REQUIRE(checkpoint.ok());
  cpu::LoadOptions options;
  options.ranks = 4;
  const auto first = cpu::CpuModel::Load(golden.config, **checkpoint, options);
  REQUIRE(first.ok());
  options.rank = 3;
  options.shared = *first;
  const auto last = cpu::CpuModel::Load(golden.config, **checkpoint, options);
  REQUIRE(last.ok());
  CHECK((*last)->weight_bytes() < (*first)->weight_bytes());
  CHECK((*last)->weight_bytes() < golden.model->weight_bytes() / 3);
  options.rank = 4;
  CHECK(cpu::CpuModel::Load(golden.config, **checkpoint, options).status().code() ==
        absl::StatusCode::kInvalidArgument);
  options.ranks = 3;
  options.rank = 0;
  CHECK(cpu::CpuModel::Load(golden.config, **checkpoint, options).status().code() ==
        absl::StatusCode::kUnimplemented);
}

TEST_CASE("work that all ranks refuse ends nothing, one that fails alone ends the stage") {
  const GoldenCase golden = LoadCase("mha_f16");
  Ranks made(golden, 2, {}, {10, 4}, 1);
  TextChunks text(golden.config.text.vocab_size, 1, 4, 4);
  backend::StageWork& work = text.works[0];
  work.total_tokens = 3;
  CHECK(made.stages[0]->Forward(work).code() == absl::StatusCode::kInvalidArgument);
  work.total_tokens = 4;
  CHECK(made.stages[0]->Forward(work).ok());

  // One end of a collective that is ended: neither rank waits for the other for good.
  const auto checkpoint = model::Checkpoint::Open(CaseFolder(golden.name));
  REQUIRE(checkpoint.ok());
  auto ends = cpu::MakeCpuCollectives(2);
  ends[1]->Abort();
  cpu::LoadOptions options;
  options.ranks = 2;
  auto model = cpu::CpuModel::Load(golden.config, **checkpoint, options);
  REQUIRE(model.ok());
  const auto stage = cpu::MakeCpuStage(*model, {0, 2}, {10, 4}, nullptr, std::move(ends[0]));
  CHECK(stage->Forward(work).code() == absl::StatusCode::kUnavailable);
  CHECK(stage->Forward(work).code() == absl::StatusCode::kUnavailable);
  // A rank without a collective could only give a part for the whole.
  CHECK(cpu::MakeCpuStage(*model, {0, 2}, {10, 4}, nullptr)->Forward(work).code() ==
        absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace rserve::testing
