// Tensor parallelism through the engine, with golden checkpoints on the CPU.

#include <string>
#include <vector>

#include "tests/engine/golden_folder.h"
#include "tests/engine/harness.h"
#include "tests/support/catch.h"
#include "tests/support/numbers.h"

namespace rserve::testing {
namespace {

constexpr double kTolerance = 1e-4;

TEST_CASE("every topology meets the reference; ranks alone enter the bits, from run to run") {
  for (const char* name : {"mha_f16", "gqa2_tied", "old_names"}) {
    INFO(name);
    const GoldenFolder golden(name);
    ModelEngineOptions options = TinyOptions();
    options.kv_tokens = 2048;
    MeetGoldens(golden, options, "TP1+E1", kTolerance);
    for (const int32_t ranks : {2, 4}) {
      options = TinyOptions();
      options.kv_tokens = 2048;
      options.tensor_parallel = ranks;
      const std::string tp = "TP" + std::to_string(ranks);
      const auto whole = MeetGoldens(golden, options, tp + "+E1", kTolerance);
      options.token_budget = 7;
      options.threads = 6;
      const auto chunks = MeetGoldens(golden, options, tp + "+E1", kTolerance);
      options.stages = 2;
      const auto stages = MeetGoldens(golden, options, tp + "xPP2+E1", kTolerance);
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
    CHECK(RelativeError(outcome.detail->logits, alone[i].detail->logits) <= kTolerance);
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
