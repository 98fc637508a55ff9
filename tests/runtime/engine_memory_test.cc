// No memory on the driver's thread, at each allocation in turn: every request still ends exactly
// once, the process lives and the engine can be destroyed.

#include <atomic>
#include <thread>

#include "absl/strings/match.h"
#include "src/runtime/timed_executor.h"
#include "tests/runtime/engine_fixture.h"
#include "tests/runtime/failing_new.h"
#include "tests/support/catch.h"

namespace rserve::testing {
namespace {

constexpr RequestId kRequests = 20;

// Runs a request to its first token, after which the driver's n-th allocation fails, and then as
// many as make the tables of the orchestrator grow. Returns whether the driver came that far.
bool RunWithFailure(int64_t n) {
  CAPTURE(n);
  bool armed = false;  // the driver's alone, until the engine is gone
  bool reached = false;
  runtime::TimedExecutorOptions timed;
  timed.first_token_outcome = [&](RequestId) {  // called by the driver
    if (!armed) FailAllocation(n);
    armed = true;
    return absl::OkStatus();
  };
  EngineOptions options = SmallOptions(2);
  // A round that failed says so; an allocation that can do without memory is followed by others.
  options.trace = [&](const TraceSpan&) { reached = reached || (armed && !AllocationToFail()); };
  options.log = [&](int32_t, const std::string&) { reached = true; };  // only the driver has cause
  auto created = Engine::Create(std::move(options),
                                std::make_unique<runtime::TimedExecutor>(std::move(timed)));
  REQUIRE(created.ok());
  Engine& engine = **created;
  std::vector<int> ends(kRequests + 1, 0);
  int open = 0;
  const auto await_ends = [&] {
    while (open > 0) {
      AwaitReadable(engine.wait_fd());
      std::vector<Event> events;
      engine.Poll(64, &events);
      for (const Event& event : events) {
        if (!IsTerminal(event.type)) continue;
        CHECK(++ends[event.request] == 1);
        CHECK((event.status.ok() || absl::IsResourceExhausted(event.status)));
        --open;
      }
    }
  };
  for (RequestId id = 1; id <= kRequests; ++id) {
    const absl::Status status = engine.Submit(TextPlan(id, 12), 0);
    CHECK((status.ok() || absl::EndsWith(status.message(), "the engine has failed")));
    open += status.ok() ? 1 : 0;
    if (id == 1) await_ends();
  }
  await_ends();
  created->reset();
  return reached;
}

TEST_CASE("Every request ends exactly once wherever the driver runs out of memory") {
  int64_t n = 1;
  while (RunWithFailure(n)) ++n;
  CHECK(n > 20);
}

TEST_CASE("An engine out of memory ends no request while a preparation reads its pixels") {
  std::atomic<bool> armed{false};
  EngineOptions options = SmallOptions(1);
  options.core.prepare_lanes = 1;
  options.trace = [&](const TraceSpan&) {  // called by the driver, after the forward of the text
    if (!armed) FailAllocation(1);
    armed = true;
  };
  EngineFixture f(std::move(options));
  f.gate().Set("forward", Behaviour::kFinish);
  REQUIRE(f.engine().Submit(ImagePlan(1, {4}), 0).ok());
  CHECK(f.Next() == "1 accepted");
  f.gate().Await("prepare 1:0");
  while (!armed) std::this_thread::yield();
  REQUIRE(f.engine().Submit(TextPlan(2, 2), 0).ok());
  // An id in use, so that nothing more is accepted while the engine still goes.
  while (f.engine().Submit(TextPlan(2, 2), 0).message() != "request 2: the engine has failed") {
    std::this_thread::yield();
  }
  std::vector<Event> early;
  f.engine().Poll(64, &early);
  CHECK(early.empty());
  CHECK(f.engine().stats().failed == 0);
  f.gate().Release("prepare 1:0");
  CHECK(f.UntilEnd(2) ==
        std::vector<std::string>{"1 failed RESOURCE_EXHAUSTED: the driver: out of memory",
                                 "2 failed RESOURCE_EXHAUSTED: the driver: out of memory"});
  f.AwaitIdle();
}

}  // namespace
}  // namespace rserve::testing
