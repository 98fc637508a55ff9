#include "tools/rserve/timeline.h"

#include <string>

#include "tests/support/catch.h"
#include "tools/rserve/spans.h"
#include "tools/rserve/text.h"

namespace rserve::tool {
namespace {

constexpr int64_t kMs = 1'000'000;

TEST_CASE("bars lie under the axis at their times, labelled where there is room") {
  const std::vector<TimelineLane> lanes = {
      {"encoder",
       {{BarKind::kEncode, 0, 40 * kMs, {"picture 1", "1"}},
        {BarKind::kEncode, 40 * kMs, 50 * kMs, {"picture 2", "2"}}}},
      {"stage 0", {{BarKind::kPrefill, 40 * kMs, 100 * kMs, {"tokens 0-511", "0-511"}}}},
  };
  const std::string text = RenderTimeline(lanes, 0, 100 * kMs, {.width = 73, .unicode = false});
  CHECK(text ==
        "         0         20        40        60        80 ms\n"
        "encoder  [--- picture 1 ----][ 2 ]                           50.0 ms  50%\n"
        "stage 0                      [======= tokens 0-511 =======]  60.0 ms  60%\n"
        "         [-] encode (picture)   [=] prefill (prompt tokens)\n");
}

TEST_CASE("bars shorter than a column are drawn, and none leaves its lane") {
  TimelineLane lane{"encoder", {}};
  for (int i = 0; i < 200; ++i) {
    lane.bars.push_back({BarKind::kEncode, i * kMs, i * kMs + 10, {"long label", "x"}});
  }
  for (const bool unicode : {false, true}) {
    const std::string text =
        RenderTimeline({lane}, 0, 200 * kMs, {.width = 60, .unicode = unicode});
    CAPTURE(text);
    size_t begin = 0;
    while (begin < text.size()) {
      const size_t end = text.find('\n', begin);
      CHECK(DisplayWidth(absl::string_view(text).substr(begin, end - begin)) <= 60);
      begin = end + 1;
    }
  }
}

TEST_CASE("an empty interval and an empty lane are drawn without a fault") {
  const std::string text = RenderTimeline({{"idle", {}}}, 5, 5, {.width = 1, .unicode = false});
  CHECK(text.find("idle") != std::string::npos);
}

// One request of two pictures on PP1+E1.
struct Example {
  std::vector<WorkerSpec> workers = SchemePlacement(Scheme::kRserve, 1, 1);
  TracedRequests requests = {{7, {"", {4, 20}, {0, 1}}}};
  std::vector<TraceSpan> spans;

  Example() {
    const auto add = [&](TraceSpan::Kind kind, int32_t worker, int64_t begin, int64_t end) {
      TraceSpan span;
      span.kind = kind;
      span.worker = worker;
      span.begin_ns = begin * kMs;
      span.end_ns = end * kMs;
      spans.push_back(span);
      return &spans.back();
    };
    add(TraceSpan::Kind::kPrepare, -1, 0, 1)->units = {{7, 0}};
    add(TraceSpan::Kind::kPrepare, -1, 1, 2)->units = {{7, 1}};
    add(TraceSpan::Kind::kEncode, 1, 1, 3)->units = {{7, 0}};
    add(TraceSpan::Kind::kEncode, 1, 3, 5)->units = {{7, 1}};
    TraceSpan* chunk = add(TraceSpan::Kind::kStage, 0, 3, 5);
    chunk->stage = 0;
    chunk->entries = {{7, 0, 19}};
    chunk = add(TraceSpan::Kind::kStage, 0, 5, 8);
    chunk->stage = 0;
    chunk->entries = {{7, 19, 30}};
  }
};

TEST_CASE("spans become lanes in the order of the data's way") {
  const Example example;
  const auto lanes = TimelineLanes(example.spans, example.workers, example.requests);
  REQUIRE(lanes.size() == 3);
  CHECK(lanes[0].name == "pixels 0");
  CHECK(lanes[1].name == "encoder");
  CHECK(lanes[2].name == "stage 0");
  CHECK(lanes[1].bars[1].labels == std::vector<std::string>{"picture 2", "2"});
  CHECK(lanes[2].bars[1].labels.front() == "tokens 19-48");
  const std::string table = SpanTable(example.spans, example.workers, example.requests, 0);
  CHECK(table.find("encode picture 2") != std::string::npos);
}

TEST_CASE("a trace has a named thread a lane, every span, and an arrow from pixels to prefill") {
  const Example example;
  const nlohmann::json trace = ChromeTrace(example.spans, example.workers, example.requests, 0);
  int names = 0, complete = 0, starts = 0, steps = 0, ends = 0;
  for (const auto& event : trace["traceEvents"]) {
    const std::string phase = event["ph"];
    names += phase == "M" && event["name"] == "thread_name" ? 1 : 0;
    starts += phase == "s" ? 1 : 0;
    steps += phase == "t" ? 1 : 0;
    ends += phase == "f" ? 1 : 0;
    if (phase != "X") continue;
    ++complete;
    CHECK(event["dur"].get<double>() > 0);
    CHECK(event.contains("tid"));
    CHECK(event["args"].is_object());
  }
  CHECK(names == 3);
  CHECK(complete == static_cast<int>(example.spans.size()));
  CHECK(starts == 2);
  CHECK(steps == 2);
  CHECK(ends == 2);
}

TEST_CASE("a worker that hosts stage and encoder is named as both") {
  const auto lanes = TimelineLanes({}, SchemePlacement(Scheme::kColocated, 2, 1), {});
  REQUIRE(lanes.size() == 2);
  CHECK(lanes[0].name == "stage 0 + encoder");
  CHECK(lanes[1].name == "stage 1");
}

TEST_CASE("what a model or a file says is shown without control characters") {
  CHECK(Printable("a\tb\n") == "a\\tb\\n");
  CHECK(Printable("\x1b[2J") == "\\x1b[2J");
  CHECK(Printable("\xff"
                  "caf\xc3\xa9") ==
        "\\xff"
        "caf\xc3\xa9");
}

}  // namespace
}  // namespace rserve::tool
