// Cancel and deadlines: the terminal event comes at once, buffers go only when nobody touches them.

#include "tests/runtime/engine_fixture.h"
#include "tests/support/catch.h"

namespace rserve::testing {
namespace {

using Lines = std::vector<std::string>;

TEST_CASE("Cancel of a request that is not open is NOT_FOUND") {
  EngineFixture f;
  f.gate().Set("", Behaviour::kFinish);
  CHECK(f.engine().Cancel(5).code() == absl::StatusCode::kNotFound);
  REQUIRE(f.engine().Submit(TextPlan(5, 3), 0).ok());
  f.UntilEnd(5);
  const absl::Status stale = f.engine().Cancel(5);
  CHECK(stale.code() == absl::StatusCode::kNotFound);
  CHECK(stale.message() == "request 5 is not open");
}

TEST_CASE("A request that waits is cancelled once, however often it is asked for") {
  EngineFixture f;
  REQUIRE(f.engine().Submit(TextPlan(1, 8), 0).ok());
  f.gate().Await("forward s0 1[0,8)");
  REQUIRE(f.engine().Submit(TextPlan(2, 8), 0).ok());
  CHECK(f.engine().Cancel(2).ok());
  f.engine().Cancel(2).IgnoreError();
  CHECK(f.UntilEnd(2) == Lines{"1 accepted", "2 accepted", "2 cancelled"});
  CHECK(f.engine().Cancel(2).code() == absl::StatusCode::kNotFound);
  f.gate().Release("forward s0 1[0,8)");
  CHECK(f.UntilEnd(1) == Lines{"1 first token 101", "1 finished"});
  CHECK_FALSE(f.gate().Began("forward s0 2[0,8)"));
}

TEST_CASE("Cancel during an encode ends the request at once and frees its buffers afterwards") {
  EngineOptions options = SmallOptions(1);
  options.core.prepare_lanes = 1;
  EngineFixture f(std::move(options));
  f.gate().Set("prepare", Behaviour::kFinish);
  f.gate().Set("forward", Behaviour::kFinish);
  REQUIRE(f.engine().Submit(ImagePlan(1, {4}), 0).ok());
  f.gate().Await("encode 1:0");
  REQUIRE(f.engine().Cancel(1).ok());
  CHECK(f.UntilEnd(1) == Lines{"1 accepted", "1 released 0", "1 cancelled"});
  CHECK_FALSE(f.gate().Began("release pixels 1:0"));
  CHECK_FALSE(f.gate().Began("release embedding 1:0"));
  CHECK_FALSE(f.engine().idle());
  CHECK(f.engine().stats().lingering_requests == 1);

  f.gate().Release("encode 1:0");
  f.AwaitIdle();
  CHECK(f.gate().Began("release pixels 1:0"));
  CHECK(f.gate().Began("release embedding 1:0"));
  CHECK(f.gate().log().back() == "forget 1");
  CHECK(f.engine().stats().lingering_requests == 0);
}

TEST_CASE("The terminal event waits for a preparation that still reads the host's memory") {
  EngineOptions options = SmallOptions(1);
  options.core.prepare_lanes = 1;
  EngineFixture f(std::move(options));
  REQUIRE(f.engine().Submit(ImagePlan(1, {4}), 0).ok());
  f.gate().Await("prepare 1:0");
  REQUIRE(f.engine().Cancel(1).ok());
  CHECK(f.engine().Submit(TextPlan(2, 3), 0).ok());
  CHECK(f.Next() == "1 accepted");
  CHECK(f.Next() == "2 accepted");
  f.gate().Release("prepare 1:0");
  CHECK(f.UntilEnd(1) == Lines{"1 released 0", "1 cancelled"});
  f.gate().Open();
  f.UntilEnd(2);
}

TEST_CASE("The terminal event waits for no preparation that reads a copy") {
  EngineOptions options = SmallOptions(1);
  options.core.prepare_lanes = 1;
  EngineFixture f(std::move(options));
  RequestPlan copied = ImagePlan(1, {4});
  copied.input_borrowed = false;
  REQUIRE(f.engine().Submit(std::move(copied), 0).ok());
  f.gate().Await("prepare 1:0");
  REQUIRE(f.engine().Cancel(1).ok());
  CHECK(f.UntilEnd(1) == Lines{"1 accepted", "1 released 0", "1 cancelled"});
  CHECK_FALSE(f.gate().Began("forget 1"));
  f.gate().Release("prepare 1:0");
  f.gate().Open();
  f.AwaitIdle();
  CHECK(f.gate().Began("forget 1"));
}

TEST_CASE("Cancel during the last stage gives no first token") {
  EngineFixture f(SmallOptions(2));
  REQUIRE(f.engine().Submit(TextPlan(1, 8), 0).ok());
  f.gate().Release("forward s0 1[0,8)");
  f.gate().Await("forward s1 1[0,8)");
  REQUIRE(f.engine().Cancel(1).ok());
  CHECK(f.UntilEnd(1) == Lines{"1 accepted", "1 cancelled"});
  f.gate().Release("forward s1 1[0,8)");
  f.AwaitIdle();
  CHECK_FALSE(f.gate().Began("take 1"));
}

TEST_CASE("A micro-batch whose requests have all ended is dropped between two stages") {
  EngineFixture f(SmallOptions(2));
  REQUIRE(f.engine().Submit(TextPlan(1, 8), 0).ok());
  f.gate().Await("forward s0 1[0,8)");
  REQUIRE(f.engine().Cancel(1).ok());
  f.UntilEnd(1);
  f.gate().Release("forward s0 1[0,8)");
  f.AwaitIdle();
  CHECK(f.gate().log() == Lines{"forward s0 1[0,8)", "drop", "forget 1"});
}

TEST_CASE("An id can be used again once its request is forgotten, and not before") {
  EngineFixture f;
  REQUIRE(f.engine().Submit(TextPlan(1, 8), 0).ok());
  CHECK(f.engine().Submit(TextPlan(1, 8), 0).code() == absl::StatusCode::kAlreadyExists);
  f.gate().Await("forward s0 1[0,8)");
  REQUIRE(f.engine().Cancel(1).ok());
  f.UntilEnd(1);
  CHECK(f.engine().Submit(TextPlan(1, 8), 0).code() == absl::StatusCode::kAlreadyExists);
  f.gate().Release("forward s0 1[0,8)");
  f.AwaitIdle();
  f.gate().ExpectAgain(1);
  CHECK(f.engine().Submit(TextPlan(1, 9), 0).ok());
  REQUIRE(f.engine().Cancel(1).ok());
  CHECK(f.UntilEnd(1).back() == "1 cancelled");
}

TEST_CASE("A request whose deadline has passed fails with what it was waiting for") {
  EngineFixture f;
  RequestPlan plan = TextPlan(1, 8);
  plan.deadline_ns = Engine::now_ns() - 1;
  REQUIRE(f.engine().Submit(std::move(plan), 0).ok());
  CHECK(f.Next() == "1 accepted");
  const Event end = f.NextEvent();
  CHECK(end.type == EventType::kFailed);
  CHECK(end.status.code() == absl::StatusCode::kDeadlineExceeded);
}

TEST_CASE("The driver wakes up by itself for a deadline") {
  EngineFixture f;
  RequestPlan plan = TextPlan(1, 8);
  plan.deadline_ns = Engine::now_ns() + 2'000'000;
  // Its one action is held, or never begins: only the clock can end it.
  REQUIRE(f.engine().Submit(std::move(plan), 0).ok());
  CHECK(f.Next() == "1 accepted");
  const Event end = f.NextEvent();
  CHECK(end.type == EventType::kFailed);
  CHECK(end.status.code() == absl::StatusCode::kDeadlineExceeded);
}

}  // namespace
}  // namespace rserve::testing
