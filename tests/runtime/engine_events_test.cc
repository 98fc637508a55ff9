// The way of a request as the host sees it: events, their order and what they carry.

#include <poll.h>

#include <set>

#include "tests/runtime/engine_fixture.h"
#include "tests/support/catch.h"

namespace rserve::testing {
namespace {

using Lines = std::vector<std::string>;

TEST_CASE("A text request is accepted, yields its first token and finishes") {
  EngineFixture f;
  f.gate().Set("forward", Behaviour::kFinish);
  REQUIRE(f.engine().Submit(TextPlan(1, 9), 0).ok());
  CHECK(f.UntilEnd(1) == Lines{"1 accepted", "1 first token 101", "1 finished"});
  f.AwaitIdle();
  CHECK(f.gate().log() == Lines{"forward s0 1[0,8)", "forward s0 1[8,9)", "take 1", "forget 1"});
}

TEST_CASE("An item's events come as it is encoded, before the first token") {
  EngineFixture f;
  f.gate().Set("", Behaviour::kFinish);
  REQUIRE(f.engine().Submit(ImagePlan(1, {2, 2}), 0).ok());
  CHECK(f.UntilEnd(1) == Lines{"1 accepted", "1 encoded 0", "1 released 0", "1 encoded 1",
                               "1 released 1", "1 first token 101", "1 finished"});
}

TEST_CASE("With preparation the host's input is released before the item is encoded") {
  EngineOptions options = SmallOptions(1);
  options.core.prepare_lanes = 1;
  EngineFixture f(std::move(options));
  f.gate().Set("", Behaviour::kFinish);
  f.gate().Set("encode", Behaviour::kHold);
  REQUIRE(f.engine().Submit(ImagePlan(1, {2}), 0).ok());
  CHECK(f.Next() == "1 accepted");
  CHECK(f.Next() == "1 released 0");
  f.gate().Release("encode 1:0");
  CHECK(f.UntilEnd(1) == Lines{"1 encoded 0", "1 first token 101", "1 finished"});
}

TEST_CASE("Events carry the caller's data, and only the terminal one says that none follows") {
  EngineFixture f;
  f.gate().Set("", Behaviour::kFinish);
  const TimeNs before = Engine::now_ns();
  REQUIRE(f.engine().Submit(ImagePlan(1, {2}), 77).ok());
  for (;;) {
    const Event event = f.NextEvent();
    CAPTURE(ToString(event));
    CHECK(event.request == 1);
    CHECK(event.user_data == 77);
    CHECK(event.time_ns >= before);
    CHECK(event.more == !IsTerminal(event.type));
    if (event.type == EventType::kFirstToken || !event.more) {
      CHECK(event.times.submitted_ns >= before);
      CHECK(event.times.submitted_ns <= event.times.first_encode_ns);
      CHECK(event.times.first_encode_ns <= event.times.last_encode_ns);
      CHECK(event.times.last_encode_ns <= event.times.first_token_ns);
      CHECK(event.times.first_prefill_ns <= event.times.first_token_ns);
      CHECK(event.times.first_token_ns <= Engine::now_ns());
    }
    if (!event.more) break;
  }
}

TEST_CASE("The host can wait with poll(2) for every single event") {
  EngineFixture f;
  f.gate().Set("", Behaviour::kFinish);
  CHECK_FALSE(Readable(f.engine().wait_fd()));
  REQUIRE(f.engine().Submit(ImagePlan(1, {2, 2, 2}), 0).ok());
  int64_t events = 0;
  for (bool more = true; more;) {
    AwaitReadable(f.engine().wait_fd());
    std::vector<Event> one;
    events += f.engine().Poll(1, &one);
    more = one.empty() || one[0].more;
  }
  CHECK(events == 9);
  CHECK_FALSE(Readable(f.engine().wait_fd()));
  CHECK(f.engine().next_deadline_ns() == kNever);
}

TEST_CASE("Requests of one engine share micro-batches in the order of their submits") {
  EngineFixture f;
  REQUIRE(f.engine().Submit(TextPlan(1, 9), 0).ok());
  f.gate().Await("forward s0 1[0,8)");
  REQUIRE(f.engine().Submit(TextPlan(2, 3), 0).ok());
  while (f.engine().stats().accepted < 2) std::this_thread::yield();
  f.gate().Release("forward s0 1[0,8)");
  f.gate().Release("forward s0 1[8,9) 2[0,3)");
  CHECK(f.UntilEnd(2) == Lines{"1 accepted", "2 accepted", "1 first token 101", "1 finished",
                               "2 first token 102", "2 finished"});
}

TEST_CASE("Fresh ids differ and are never zero") {
  EngineFixture f;
  std::set<RequestId> ids = {0};
  for (int i = 0; i < 100; ++i) CHECK(ids.insert(f.engine().NewRequestId()).second);
}

TEST_CASE("Statistics are up to date once a terminal event was polled") {
  EngineFixture f;
  f.gate().Set("", Behaviour::kFinish);
  REQUIRE(f.engine().Submit(ImagePlan(1, {3}), 0).ok());
  f.UntilEnd(1);
  f.AwaitIdle();
  const OrchestratorStats stats = f.engine().stats();
  CHECK(stats.accepted == 1);
  CHECK(stats.finished == 1);
  CHECK(stats.open_requests == 0);
  CHECK(stats.lingering_requests == 0);
  CHECK(stats.embedding_bytes == 0);
  CHECK(stats.kv_blocks_used == 0);
  CHECK(stats.encoded_tokens == 3);
  CHECK(stats.prefilled_tokens == 7);
}

TEST_CASE("Every action leaves a span with its place and its contents") {
  EngineOptions options = SmallOptions(1);
  options.core.prepare_lanes = 1;
  std::vector<TraceSpan> spans;  // written by the driver, read after it ended
  options.trace = [&spans](const TraceSpan& span) { spans.push_back(span); };
  {
    EngineFixture f(std::move(options));
    f.gate().Set("", Behaviour::kFinish);
    REQUIRE(f.engine().Submit(ImagePlan(1, {2}), 0).ok());
    f.UntilEnd(1);
  }
  REQUIRE(spans.size() >= 3);
  for (const TraceSpan& span : spans) {
    CHECK(span.begin_ns > 0);
    CHECK(span.begin_ns <= span.end_ns);
    switch (span.kind) {
      case TraceSpan::Kind::kPrepare:
        CHECK(span.worker == -1);
        CHECK(span.lane == 0);
        CHECK(span.units == std::vector<UnitRef>{{1, 0}});
        break;
      case TraceSpan::Kind::kEncode:
        CHECK(span.worker == 1);
        CHECK(span.tokens == 2);
        CHECK(span.units == std::vector<UnitRef>{{1, 0}});
        break;
      case TraceSpan::Kind::kStage:
        CHECK(span.worker == 0);
        CHECK(span.stage == 0);
        CHECK(span.micro_batch > 0);
        REQUIRE(span.entries.size() == 1);
        CHECK(span.entries[0].tokens == span.tokens);
        break;
    }
  }
}

}  // namespace
}  // namespace rserve::testing
