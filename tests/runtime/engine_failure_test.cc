// Whatever an executor does wrong, each request gets exactly one terminal event and the engine goes
// on.

#include <atomic>

#include "tests/runtime/engine_fixture.h"
#include "tests/support/catch.h"

namespace rserve::testing {
namespace {

using Lines = std::vector<std::string>;

EngineOptions WithPreparation() {
  EngineOptions options = SmallOptions(2);
  options.core.prepare_lanes = 1;
  return options;
}

// The engine serves another request after what the test did to it.
void CheckStillServes(EngineFixture& f) {
  f.AwaitIdle();
  f.gate().Open();
  REQUIRE(f.engine().Submit(ImagePlan(1000, {4}), 0).ok());
  CHECK(f.UntilEnd(1000).back() == "1000 finished");
  f.AwaitIdle();
  const OrchestratorStats stats = f.engine().stats();
  CHECK(stats.open_requests == 0);
  CHECK(stats.embedding_bytes == 0);
  CHECK(stats.pixel_bytes == 0);
  CHECK(stats.kv_blocks_used == 0);
}

TEST_CASE("A failing action fails its request with the executor's status") {
  const std::string action = GENERATE(as<std::string>{}, "prepare 1:0", "prepare 1:1", "encode 1:0",
                                      "encode 1:1", "forward s0", "forward s1", "forward s1 1[2,");
  CAPTURE(action);
  EngineFixture f(WithPreparation());
  f.gate().Set("", Behaviour::kFinish);
  f.gate().SetStatus(action, absl::DataLossError("bad bits"));
  REQUIRE(f.engine().Submit(ImagePlan(1, {4, 4}), 0).ok());
  CHECK(f.UntilEnd(1).back() == "1 failed DATA_LOSS: bad bits");
  f.AwaitIdle();
  CHECK(f.engine().stats().failed == 1);
  f.gate().SetStatus(action, absl::OkStatus());
  CheckStillServes(f);
}

TEST_CASE("An exception of the executor fails the action and nothing else") {
  const std::string action = GENERATE(as<std::string>{}, "prepare", "encode", "forward");
  const bool memory = GENERATE(false, true);
  CAPTURE(action, memory);
  std::atomic<int> logged{0};
  EngineOptions options = WithPreparation();
  options.log = [&](int32_t, const std::string&) { ++logged; };
  EngineFixture f(std::move(options));
  f.gate().Set("", Behaviour::kFinish);
  f.gate().Set(action, memory ? Behaviour::kBadAlloc : Behaviour::kThrow);
  REQUIRE(f.engine().Submit(ImagePlan(1, {4}), 0).ok());
  CHECK(f.UntilEnd(1).back() == (memory ? "1 failed RESOURCE_EXHAUSTED: the executor: out of memory"
                                        : "1 failed INTERNAL: the executor threw: boom"));
  CHECK(logged > 0);
  CheckStillServes(f);
}

TEST_CASE("A dropped completion fails the action") {
  const std::string action = GENERATE(as<std::string>{}, "encode", "forward");
  CAPTURE(action);
  EngineFixture f(WithPreparation());
  f.gate().Set("", Behaviour::kFinish);
  f.gate().Set(action, Behaviour::kDrop);
  REQUIRE(f.engine().Submit(ImagePlan(1, {4}), 0).ok());
  CHECK(f.UntilEnd(1).back() == "1 failed INTERNAL: the executor dropped its completion");
  CheckStillServes(f);
}

TEST_CASE("Completions may come inline, twice, later or from any thread") {
  const Behaviour behaviour =
      GENERATE(Behaviour::kFinish, Behaviour::kTwice, Behaviour::kOtherThread);
  CAPTURE(static_cast<int>(behaviour));
  EngineFixture f(WithPreparation());
  f.gate().Set("", behaviour);
  f.gate().Set("prepare", Behaviour::kFinish);
  REQUIRE(f.engine().Submit(ImagePlan(1, {4, 4}), 0).ok());
  CHECK(f.UntilEnd(1).back() == "1 finished");
  CheckStillServes(f);
  CHECK(f.engine().stats().stale_tokens == 0);
}

TEST_CASE("A completion after the request was cancelled is taken note of") {
  EngineFixture f;
  f.gate().Set("", Behaviour::kReturn);
  REQUIRE(f.engine().Submit(TextPlan(1, 8), 0).ok());
  f.gate().Await("forward s0 1[0,8)");
  REQUIRE(f.engine().Cancel(1).ok());
  CHECK(f.UntilEnd(1).back() == "1 cancelled");
  f.gate().Release("forward s0 1[0,8)", absl::InternalError("too late"));
  CheckStillServes(f);
}

TEST_CASE("A first token that cannot be had fails its request and not its neighbours") {
  const bool throws = GENERATE(false, true);
  CAPTURE(throws);
  EngineFixture f;
  if (throws) {
    f.gate().Set("take 2", Behaviour::kThrow);
  } else {
    f.gate().SetStatus("take 2", absl::InternalError("no logits"));
  }
  REQUIRE(f.engine().Submit(TextPlan(9, 8), 0).ok());
  f.gate().Await("forward s0 9[0,8)");
  for (RequestId id : {1, 2, 3}) REQUIRE(f.engine().Submit(TextPlan(id, 2), 0).ok());
  while (f.engine().stats().accepted < 4) std::this_thread::yield();
  f.gate().Release("forward s0 9[0,8)");
  f.gate().Release("forward s0 1[0,2) 2[0,2) 3[0,2)");
  const std::string failure =
      throws ? "2 failed INTERNAL: the executor threw: boom" : "2 failed INTERNAL: no logits";
  CHECK(f.UntilEnd(3) == Lines{"9 accepted", "1 accepted", "2 accepted", "3 accepted",
                               "9 first token 109", "9 finished", "1 first token 101", "1 finished",
                               failure, "3 first token 103", "3 finished"});
  CHECK(f.engine().stats().finished == 3);
  CHECK(f.engine().stats().failed == 1);
  CheckStillServes(f);
}

TEST_CASE("An encode that was UNAVAILABLE is tried again as often as configured") {
  EngineOptions options = SmallOptions(1);
  options.core.max_encode_attempts = 2;
  EngineFixture f(std::move(options));
  f.gate().Set("forward", Behaviour::kFinish);
  REQUIRE(f.engine().Submit(ImagePlan(1, {4}), 0).ok());
  f.gate().Release("encode 1:0", absl::UnavailableError("lost it"));
  f.gate().Release("encode 1:0");
  CHECK(f.UntilEnd(1).back() == "1 finished");
  REQUIRE(f.engine().Submit(ImagePlan(2, {4}), 0).ok());
  f.gate().Release("encode 2:0", absl::UnavailableError("lost it"));
  f.gate().Release("encode 2:0", absl::UnavailableError("lost it again"));
  CHECK(f.UntilEnd(2).back() == "2 failed UNAVAILABLE: lost it again");
}

TEST_CASE("Exceptions of the executor's other calls, of trace and of log change nothing") {
  EngineOptions options = SmallOptions(1);
  options.trace = [](const TraceSpan&) { throw 1; };
  options.log = [](int32_t, const std::string&) { throw 2; };
  EngineFixture f(std::move(options));
  f.gate().Set("", Behaviour::kFinish);
  f.gate().Set("forget", Behaviour::kThrow);
  REQUIRE(f.engine().Submit(ImagePlan(1, {4}), 0).ok());
  CHECK(f.UntilEnd(1).back() == "1 finished");
  CheckStillServes(f);
}

TEST_CASE("A worker that cannot be pinned runs unpinned and says so") {
  std::atomic<int> logged{0};
  EngineOptions options = SmallOptions(1);
  options.worker_cores = {{1023}};  // beyond what this machine has
  options.log = [&](int32_t, const std::string& message) {
    if (message.find("not pinned: worker 0") != std::string::npos) ++logged;
  };
  EngineFixture f(std::move(options));
  f.gate().Set("", Behaviour::kFinish);
  REQUIRE(f.engine().Submit(TextPlan(1, 4), 0).ok());
  CHECK(f.UntilEnd(1).back() == "1 finished");
  CHECK(logged == 1);
}

}  // namespace
}  // namespace rserve::testing
