// Overlap, proven without a clock: an action is held, and another one begins.

#include <utility>
#include <vector>

#include "tests/runtime/engine_fixture.h"
#include "tests/support/catch.h"

namespace rserve::testing {
namespace {

TEST_CASE("Prefill of what is encoded runs while the next item of the request is encoded") {
  EngineFixture f;
  f.gate().Set("forward", Behaviour::kFinish);
  REQUIRE(f.engine().Submit(ImagePlan(1, {4, 4}), 0).ok());
  f.gate().Release("encode 1:0");
  f.gate().Await("encode 1:1");  // and held from here on
  // The text before the first image, then that image and the text behind it.
  f.gate().Await("forward s0 1[0,2)");
  f.gate().Await("forward s0 1[2,8)");
  f.gate().Await("release embedding 1:0");
  CHECK_FALSE(f.gate().Began("take 1"));
  f.gate().Release("encode 1:1");
  f.UntilEnd(1);
}

TEST_CASE("Under a whole-request gate prefill waits for the last item") {
  EngineOptions options = SmallOptions(1);
  options.core.policy.gate = Gate::kWholeRequest;
  EngineFixture f(std::move(options));
  REQUIRE(f.engine().Submit(ImagePlan(1, {4, 4}), 0).ok());
  f.gate().Release("encode 1:0");
  f.gate().Await("encode 1:1");
  CHECK_FALSE(f.gate().Began("forward s0 1[0,2)"));
  CHECK_FALSE(f.gate().Began("forward s0 1[0,8)"));
  f.gate().Set("forward", Behaviour::kFinish);
  f.gate().Release("encode 1:1");
  f.UntilEnd(1);
}

TEST_CASE("Stages work on different chunks of one request at the same time") {
  EngineFixture f(SmallOptions(2));
  REQUIRE(f.engine().Submit(TextPlan(1, 16), 0).ok());
  f.gate().Release("forward s0 1[0,8)");
  f.gate().Await("forward s1 1[0,8)");
  f.gate().Await("forward s0 1[8,16)");
  f.gate().Release("forward s0 1[8,16)");
  CHECK_FALSE(f.gate().Began("forward s1 1[8,16)"));
  f.gate().Release("forward s1 1[0,8)");
  f.gate().Release("forward s1 1[8,16)");
  f.UntilEnd(1);
}

TEST_CASE("A unit is prepared while the one before it is encoded") {
  EngineOptions options = SmallOptions(1);
  options.core.prepare_lanes = 2;
  EngineFixture f(std::move(options));
  f.gate().Set("forward", Behaviour::kFinish);
  REQUIRE(f.engine().Submit(ImagePlan(1, {4, 4, 4}), 0).ok());
  f.gate().Await("prepare 1:0");
  f.gate().Await("prepare 1:1");  // two lanes
  f.gate().Release("prepare 1:0");
  f.gate().Await("encode 1:0");
  f.gate().Await("prepare 1:2");
  f.gate().Release("prepare 1:1");
  f.gate().Release("prepare 1:2");
  f.gate().Set("encode", Behaviour::kFinish);
  f.gate().Release("encode 1:0");
  f.UntilEnd(1);
}

TEST_CASE("The timeline of one request has pixels, encode and prefill under way at once") {
  std::vector<TraceSpan> spans;  // written by the driver thread, read when it has ended
  EngineOptions options = SmallOptions(1);
  options.core.prepare_lanes = 1;
  options.trace = [&spans](const TraceSpan& span) { spans.push_back(span); };
  {
    EngineFixture f(std::move(options));
    REQUIRE(f.engine().Submit(ImagePlan(1, {4, 4, 4}), 0).ok());
    f.gate().Release("forward s0 1[0,2)");
    f.gate().Release("prepare 1:0");
    f.gate().Release("encode 1:0");
    f.gate().Release("prepare 1:1");
    // Each is about another picture, has begun, and does not end before all have.
    f.gate().Await("prepare 1:2");
    f.gate().Await("encode 1:1");
    f.gate().Await("forward s0 1[2,8)");
    for (const char* rest : {"prepare", "encode", "forward"}) {
      f.gate().Set(rest, Behaviour::kFinish);
    }
    f.gate().Release("prepare 1:2");
    f.gate().Release("encode 1:1");
    f.gate().Release("forward s0 1[2,8)");
    f.UntilEnd(1);
  }
  std::vector<TraceSpan> held;
  for (const TraceSpan& span : spans) {
    const bool stage = span.kind == TraceSpan::Kind::kStage;
    const int64_t which = stage ? span.entries[0].begin : span.units[0].unit;
    if (which == (span.kind == TraceSpan::Kind::kEncode ? 1 : 2)) held.push_back(span);
  }
  REQUIRE(held.size() == 3);
  for (const TraceSpan& one : held) {
    for (const TraceSpan& other : held) CHECK(one.begin_ns <= other.end_ns);
  }
}

TEST_CASE(
    "An executor that returns before it is done keeps the worker's thread free, not its turn") {
  EngineFixture f;
  f.gate().Set("encode", Behaviour::kReturn);
  f.gate().Set("forward", Behaviour::kReturn);
  REQUIRE(f.engine().Submit(ImagePlan(1, {4, 4}), 0).ok());
  f.gate().Await("encode 1:0");
  f.gate().Await("forward s0 1[0,2)");
  CHECK_FALSE(f.gate().Began("encode 1:1"));
  f.gate().Release("encode 1:0");
  f.gate().Await("encode 1:1");
  f.gate().Release("forward s0 1[0,2)");
  f.gate().Release("forward s0 1[2,8)");
  f.gate().Release("encode 1:1");
  f.gate().Release("forward s0 1[8,14)");
  f.UntilEnd(1);
}

}  // namespace
}  // namespace rserve::testing
