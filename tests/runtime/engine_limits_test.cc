// What an engine refuses, and what it says then.

#include "tests/runtime/engine_fixture.h"
#include "tests/support/catch.h"

namespace rserve::testing {
namespace {

absl::Status CreateStatus(EngineOptions options) {
  return Engine::Create(std::move(options),
                        std::make_unique<GatedExecutor>(std::make_shared<ActionGate>()))
      .status();
}

TEST_CASE("Options out of range are refused by name") {
  EngineOptions options = SmallOptions(1);
  CHECK(CreateStatus(options).ok());
  CHECK(Engine::Create(options, nullptr).status().message() == "executor is null");

  options.core.budgets.queue_requests = 0;
  CHECK(CreateStatus(options).message() == "budgets.queue_requests is 0; it must be at least 1");
  options = SmallOptions(1);
  options.core.budgets.input_bytes = -1;
  CHECK(CreateStatus(options).message() == "budgets.input_bytes is -1; it must be at least 0");
  options = SmallOptions(1);
  options.core.policy.token_budget = 0;
  CHECK(CreateStatus(options).code() == absl::StatusCode::kInvalidArgument);
  options = SmallOptions(1);
  options.worker_cores = {{}, {}, {0}};
  CHECK(CreateStatus(options).message() == "worker_cores names 3 workers of 2");
  options = SmallOptions(1);
  options.worker_cores = {{-1}};
  CHECK(CreateStatus(options).message() == "worker_cores: core -1 is not in [0, 1024)");
}

TEST_CASE("A request over queue_requests is refused until another one ends") {
  EngineOptions options = SmallOptions(1);
  options.core.budgets.queue_requests = 2;
  EngineFixture f(std::move(options));
  REQUIRE(f.engine().Submit(TextPlan(1, 8), 0).ok());
  REQUIRE(f.engine().Submit(TextPlan(2, 8), 0).ok());
  const absl::Status refused = f.engine().Submit(TextPlan(3, 8), 0);
  CHECK(refused.code() == absl::StatusCode::kResourceExhausted);
  CHECK(refused.message() == "request 3: 2 requests are open; queue_requests = 2");

  f.gate().Release("forward s0 1[0,8)");
  f.UntilEnd(1);
  CHECK(f.engine().Submit(TextPlan(3, 8), 0).ok());
  CHECK(f.engine().stats().refused == 1);
  f.gate().Open();
  CHECK(f.UntilEnd(3).back() == "3 finished");
}

TEST_CASE("A cancelled request gives its place back although its action is still held") {
  EngineOptions options = SmallOptions(1);
  options.core.budgets.queue_requests = 1;
  EngineFixture f(std::move(options));
  REQUIRE(f.engine().Submit(TextPlan(1, 8), 0).ok());
  f.gate().Await("forward s0 1[0,8)");
  REQUIRE(f.engine().Cancel(1).ok());
  f.UntilEnd(1);
  CHECK(f.engine().Submit(TextPlan(2, 8), 0).ok());
}

TEST_CASE("A request over input_bytes is refused until another one ends") {
  EngineOptions options = SmallOptions(1);
  options.core.budgets.input_bytes = 100;
  EngineFixture f(std::move(options));
  RequestPlan first = TextPlan(1, 8);
  first.input_bytes = 60;
  RequestPlan second = TextPlan(2, 8);
  second.input_bytes = 41;
  REQUIRE(f.engine().Submit(first, 0).ok());
  const absl::Status refused = f.engine().Submit(second, 0);
  CHECK(refused.code() == absl::StatusCode::kResourceExhausted);
  CHECK(refused.message() ==
        "request 2 holds 41 input bytes and open requests hold 60; input_bytes = 100");
  RequestPlan third = TextPlan(3, 8);
  third.input_bytes = 40;
  CHECK(f.engine().Submit(third, 0).ok());

  f.gate().Release("forward s0 1[0,8)");
  f.UntilEnd(1);
  CHECK(f.engine().Submit(second, 0).ok());
}

TEST_CASE("A plan that can never run is refused and leaves nothing behind") {
  EngineOptions options = SmallOptions(1);
  options.core.budgets.embedding_bytes = 32;
  options.core.budgets.queue_requests = 1;
  EngineFixture f(std::move(options));
  CHECK(f.engine().Submit(RequestPlan{}, 0).code() == absl::StatusCode::kInvalidArgument);
  CHECK(f.engine().Submit(ImagePlan(1, {3}), 0).code() == absl::StatusCode::kResourceExhausted);
  CHECK(f.engine().stats().refused == 2);
  CHECK(f.engine().idle());
  f.gate().Set("", Behaviour::kFinish);
  CHECK(f.engine().Submit(ImagePlan(1, {2}), 0).ok());
  CHECK(f.UntilEnd(1).back() == "1 finished");
}

}  // namespace
}  // namespace rserve::testing
