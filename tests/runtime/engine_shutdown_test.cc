// Drain, abort and destruction.

#include <thread>

#include "tests/runtime/engine_fixture.h"
#include "tests/support/catch.h"

namespace rserve::testing {
namespace {

using Lines = std::vector<std::string>;

TEST_CASE("Drain finishes what is open and refuses what comes") {
  EngineFixture f;
  REQUIRE(f.engine().Submit(TextPlan(1, 8), 0).ok());
  f.engine().Drain();
  const absl::Status refused = f.engine().Submit(TextPlan(2, 8), 0);
  CHECK(refused.code() == absl::StatusCode::kFailedPrecondition);
  CHECK(refused.message() == "request 2: the engine is draining");
  f.gate().Release("forward s0 1[0,8)");
  CHECK(f.UntilEnd(1) == Lines{"1 accepted", "1 first token 101", "1 finished"});
  f.AwaitIdle();
}

TEST_CASE("Abort cancels what is open and refuses what comes") {
  EngineFixture f;
  REQUIRE(f.engine().Submit(TextPlan(1, 8), 0).ok());
  REQUIRE(f.engine().Submit(ImagePlan(2, {4}), 0).ok());
  f.engine().Abort();
  const absl::Status refused = f.engine().Submit(TextPlan(3, 8), 0);
  CHECK(refused.code() == absl::StatusCode::kFailedPrecondition);
  CHECK(refused.message() == "request 3: the engine was aborted");
  f.gate().Open();
  Lines ends;
  while (ends.size() < 2) {
    const Event event = f.NextEvent();
    if (IsTerminal(event.type)) ends.push_back(ToString(event));
  }
  CHECK(ends == Lines{"1 cancelled", "2 cancelled"});
  f.AwaitIdle();
}

TEST_CASE("Drain can be followed by abort, and both may be repeated") {
  EngineFixture f;
  REQUIRE(f.engine().Submit(TextPlan(1, 8), 0).ok());
  f.engine().Drain();
  f.engine().Drain();
  f.engine().Abort();
  f.engine().Abort();
  CHECK(f.UntilEnd(1).back() == "1 cancelled");
}

TEST_CASE("Destruction ends what is open and waits for what the executor holds") {
  auto gate = std::make_shared<ActionGate>();
  auto created = Engine::Create(SmallOptions(2), std::make_unique<GatedExecutor>(gate));
  REQUIRE(created.ok());
  std::unique_ptr<Engine> engine = *std::move(created);
  REQUIRE(engine->Submit(ImagePlan(1, {4, 4}), 0).ok());
  gate->Await("encode 1:0");
  gate->Await("forward s0 1[0,2)");
  for (RequestId id : {2, 3}) REQUIRE(engine->Submit(ImagePlan(id, {4, 4}), 0).ok());

  Engine* const raw = engine.get();
  std::thread destroyer([&] { engine.reset(); });
  // Submit works until the destructor has begun, and does not after it.
  RequestId next = 100;
  absl::Status submitted;
  while ((submitted = raw->Submit(TextPlan(next++, 1), 0)).ok()) std::this_thread::yield();
  CHECK(submitted.code() == absl::StatusCode::kFailedPrecondition);
  CHECK_FALSE(gate->Began("forget 1"));
  gate->Open();
  destroyer.join();
  CHECK(gate->Began("forget 1"));
  CHECK(gate->Began("forget 3"));
  CHECK(gate->violations() == Lines{});
}

TEST_CASE("Destruction waits for completions that are out, whoever reports them") {
  auto gate = std::make_shared<ActionGate>();
  gate->Set("", Behaviour::kReturn);
  auto created = Engine::Create(SmallOptions(1), std::make_unique<GatedExecutor>(gate));
  REQUIRE(created.ok());
  std::unique_ptr<Engine> engine = *std::move(created);
  REQUIRE(engine->Submit(ImagePlan(1, {4}), 0).ok());
  gate->Await("encode 1:0");
  gate->Await("forward s0 1[0,2)");
  std::thread destroyer([&] { engine.reset(); });
  gate->Release("forward s0 1[0,2)");
  CHECK_FALSE(gate->Began("forget 1"));
  gate->Open();
  destroyer.join();
  CHECK(gate->Began("forget 1"));
  CHECK(gate->violations() == Lines{});
}

TEST_CASE("An engine that was never used ends at once") {
  for (int i = 0; i < 5; ++i) {
    EngineOptions options = SmallOptions(3);
    options.core.prepare_lanes = 2;
    EngineFixture f(std::move(options));
  }
}

}  // namespace
}  // namespace rserve::testing
