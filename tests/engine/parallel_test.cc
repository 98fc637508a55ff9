// Tensor parallelism through the engine, with golden checkpoints on the CPU.

#include <map>
#include <vector>

#include "tests/engine/golden_folder.h"
#include "tests/engine/harness.h"
#include "tests/support/catch.h"

namespace rserve::testing {
namespace {

constexpr double kTolerance = 1e-4;

std::vector<std::vector<float>> Logits(const GoldenFolder& golden, ModelEngineOptions options,
                                       const std::string& topology) {
  options.model_path = golden.path();
  const auto engine = MustCreate(options);
  CHECK(engine->info().topology == topology);
  std::vector<RequestId> ids;
  for (const GoldenPrompt& prompt : golden.prompts()) {
    ids.push_back(MustSubmit(*engine, prompt.request));
  }
  const std::map<RequestId, Outcome> outcomes = WaitForAll(*engine, ids);
  std::vector<std::vector<float>> logits;
  for (size_t i = 0; i < ids.size(); ++i) {
    const Outcome& outcome = outcomes.at(ids[i]);
    INFO(outcome.terminal().status);
    REQUIRE(outcome.terminal().type == EventType::kFinished);
    CHECK(outcome.detail->token_ids == golden.prompts()[i].token_ids);
    logits.push_back(outcome.detail->logits);
    const double difference = RelativeDifference(logits.back(), golden.prompts()[i].logits);
    INFO(topology << ": relative difference " << difference);
    CHECK(difference <= kTolerance);
  }
  return logits;
}

TEST_CASE("every topology meets the reference; ranks alone enter the bits, from run to run") {
  for (const char* name : {"mha_f16", "gqa2_tied", "old_names"}) {
    INFO(name);
    const GoldenFolder golden(name);
    ModelEngineOptions options = TinyOptions();
    options.kv_tokens = 2048;
    Logits(golden, options, "TP1+E1");
    for (const int32_t ranks : {2, 4}) {
      options = TinyOptions();
      options.kv_tokens = 2048;
      options.tensor_parallel = ranks;
      const std::string tp = "TP" + std::to_string(ranks);
      const auto whole = Logits(golden, options, tp + "+E1");
      options.token_budget = 7;
      options.threads = 6;
      const auto chunks = Logits(golden, options, tp + "+E1");
      options.stages = 2;
      const auto stages = Logits(golden, options, tp + "xPP2+E1");
      for (size_t i = 0; i < whole.size(); ++i) {
        CHECK(SameBits(chunks[i], whole[i]));
        CHECK(SameBits(stages[i], whole[i]));
      }
    }
  }
}

TEST_CASE("requests with pictures run on ranks, together, and cancelled ones leave nothing") {
  ModelEngineOptions options = TinyOptions();
  options.tensor_parallel = 2;
  options.stages = 2;
  options.token_budget = 48;
  std::vector<std::unique_ptr<OwnedRequest>> requests;
  for (uint64_t seed = 1; seed <= 6; ++seed) requests.push_back(MakeRequest("txtp", seed));
  const std::vector<Outcome> alone = RunAll(*MustCreate(TinyOptions()), requests, false);
  const auto engine = MustCreate(options);
  std::vector<RequestId> ids;
  for (const auto& request : requests) ids.push_back(MustSubmit(*engine, request->request));
  CHECK(engine->Cancel(ids[2]).ok());
  const auto outcomes = WaitForAll(*engine, ids);
  for (size_t i = 0; i < ids.size(); ++i) {
    const Outcome& outcome = outcomes.at(ids[i]);
    if (outcome.terminal().type == EventType::kCancelled) continue;
    REQUIRE(outcome.terminal().type == EventType::kFinished);
    CHECK(SameBits(outcome.detail->embeddings, alone[i].detail->embeddings));
    CHECK(RelativeDifference(outcome.detail->logits, alone[i].detail->logits) <= kTolerance);
  }
  CHECK(engine->stats().kv_blocks_used == 0);
}

TEST_CASE("a number of ranks that does not divide the model is refused by its name") {
  ModelEngineOptions options = TinyOptions();
  for (const int32_t ranks : {3, 8, 0, -1, 65}) {
    options.tensor_parallel = ranks;
    const absl::Status status = ModelEngine::Create(options).status();
    INFO(status);
    CHECK_FALSE(status.ok());
    CHECK(status.message().find("tensor_parallel is " + std::to_string(ranks)) !=
          std::string::npos);
  }
}

}  // namespace
}  // namespace rserve::testing
