// An engine whose actions take known times: the schedule that comes out is known too.

#include "src/runtime/timed_executor.h"

#include <thread>

#include "tests/runtime/engine_fixture.h"
#include "tests/support/catch.h"

namespace rserve::runtime {
namespace {

constexpr TimeNs kMs = 1'000'000;

TEST_CASE("A first token is a function of the request's id") {
  CHECK(TimedExecutor::FirstTokenOf(1).token == TimedExecutor::FirstTokenOf(1).token);
  CHECK(TimedExecutor::FirstTokenOf(1).token != TimedExecutor::FirstTokenOf(2).token);
  for (RequestId id = 0; id < 1000; ++id) CHECK(TimedExecutor::FirstTokenOf(id).token >= 0);
}

TEST_CASE("An action ends when its time has passed and not before") {
  auto clock = std::make_shared<ManualClock>();
  TimedExecutorOptions options;
  options.duration_ns = [](const TimedAction& action) { return action.tokens * kMs; };
  TimedExecutor executor(std::move(options), clock);
  std::atomic<bool> done{false};
  std::thread worker([&] {
    EncodeJob job;
    job.tokens = 20;
    executor.Encode(std::move(job), [&](absl::Status status) { done = status.ok(); });
  });
  CHECK(clock->WaitForSleepers(1) == 20 * kMs);
  clock->AdvanceTo(20 * kMs - 1);
  CHECK_FALSE(done);
  CHECK(clock->WaitForSleepers(1) == 20 * kMs);
  clock->AdvanceTo(20 * kMs);
  worker.join();
  CHECK(done);
}

TEST_CASE("Two stages of known duration overlap: n chunks take n + 1 times") {
  auto clock = std::make_shared<ManualClock>();
  TimedExecutorOptions timed;
  timed.duration_ns = [](const TimedAction&) { return 20 * kMs; };
  auto created = Engine::Create(rserve::testing::SmallOptions(2),
                                std::make_unique<TimedExecutor>(std::move(timed), clock));
  REQUIRE(created.ok());
  REQUIRE((*created)->Submit(rserve::testing::TextPlan(1, 32), 0).ok());
  // Four chunks of 8 over two stages: one stage works, then both three times, then one.
  for (int sleepers : {1, 2, 2, 2, 1}) {
    const TimeNs now = clock->Now();
    CHECK(clock->WaitForSleepers(sleepers) == now + 20 * kMs);
    clock->AdvanceTo(now + 20 * kMs);
  }
  while (!(*created)->idle()) std::this_thread::yield();
  CHECK((*created)->stats().finished == 1);
  CHECK(clock->Now() == 100 * kMs);
}

TEST_CASE("Outcomes are injected by what an action is") {
  TimedExecutorOptions options;
  options.outcome = [](const TimedAction& action) {
    return action.kind == TraceSpan::Kind::kStage && action.stage == 1
               ? absl::InternalError("stage 1")
               : absl::OkStatus();
  };
  TimedExecutor executor(std::move(options));
  CHECK(executor.Prepare({1, 0}).ok());
  StageJob job;
  job.stage = 1;
  absl::Status status;
  executor.Forward(std::move(job), [&](absl::Status s) { status = std::move(s); });
  CHECK(status.message() == "stage 1");
}

TEST_CASE("The system's clock sleeps until a time that has come when it returns") {
  SystemClock clock;
  const TimeNs until = clock.Now() + kMs / 2;
  clock.SleepUntil(until);
  CHECK(clock.Now() >= until);
  clock.SleepUntil(until - kMs);  // the past
}

}  // namespace
}  // namespace rserve::runtime
