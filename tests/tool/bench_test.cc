#include <cmath>
#include <string>

#include "tests/support/catch.h"
#include "tools/rserve/bench_run.h"
#include "tools/rserve/bench_targets.h"
#include "tools/rserve/bound.h"
#include "tools/rserve/workload.h"

namespace rserve::tool {
namespace {

// `k` pictures of 100 tokens, each encoded in `encode`, all prefilled in one chunk of `prefill`.
SoloTimes Even(int k, TimeNs encode, TimeNs prefill) {
  SoloTimes solo;
  for (int i = 0; i < k; ++i) solo.items.push_back({i * 100, encode});
  solo.chunks = {{0, k * 100, prefill}};
  return solo;
}

TEST_CASE("the bound of even work is one picture more than the longer side") {
  CHECK(CriticalPathBound(Even(8, 10, 80), 1) == 90);
  CHECK(CriticalPathBound(Even(8, 10, 160), 1) ==
        170);                                           // prefill-bound: first encode + all prefill
  CHECK(CriticalPathBound(Even(8, 20, 80), 1) == 170);  // encode-bound: all encodes + last prefill
  CHECK(CriticalPathBound(Even(1, 10, 80), 1) == 90);
}

TEST_CASE("several encoders make pictures ready earlier, a tail is added once") {
  SoloTimes solo = Even(8, 20, 80);
  CHECK(CriticalPathBound(solo, 2) == 100);
  solo.tail_ns = 5;
  CHECK(CriticalPathBound(solo, 2) == 105);
}

TEST_CASE("without pictures the bound is the prefill") {
  SoloTimes solo;
  solo.chunks = {{0, 10, 30}, {10, 10, 20}};
  CHECK(CriticalPathBound(solo, 1) == 50);
  CHECK(solo.encode_ns() == 0);
  CHECK(solo.prefill_ns() == 50);
}

TEST_CASE("text before the first picture is not behind its encode") {
  SoloTimes solo;
  solo.items = {{50, 10}};
  solo.chunks = {{0, 100, 100}};
  CHECK(CriticalPathBound(solo, 1) == 100);  // 10 + the second half is less than the whole prefill
}

TEST_CASE("spans that are not of a solo run are refused") {
  TraceSpan encode;
  encode.kind = TraceSpan::Kind::kEncode;
  encode.begin_ns = 0;
  encode.end_ns = 10;
  encode.units = {{1, 0}};
  TraceSpan chunk;
  chunk.kind = TraceSpan::Kind::kStage;
  chunk.stage = 0;
  chunk.begin_ns = 10;
  chunk.end_ns = 30;
  chunk.entries = {{1, 0, 20}};
  const int64_t begin[] = {5};

  const auto solo = SoloTimesFromSpans({encode, chunk}, 1, begin, 20);
  REQUIRE(solo.ok());
  CHECK(solo->items[0].encode_ns == 10);
  CHECK(solo->chunks[0].ns == 20);

  TraceSpan other = encode;
  other.units = {{2, 0}};
  CHECK(SoloTimesFromSpans({other, encode, chunk, other}, 1, begin, 20).ok());
  CHECK_FALSE(SoloTimesFromSpans({encode, chunk}, 2, begin, 20).ok());

  CHECK_FALSE(SoloTimesFromSpans({encode, chunk}, 1, begin, 21).ok());
  TraceSpan early = chunk;
  early.begin_ns = 9;
  CHECK_FALSE(SoloTimesFromSpans({encode, early}, 1, begin, 20).ok());
  TraceSpan batch = encode;
  batch.units.push_back({1, 1});
  CHECK_FALSE(SoloTimesFromSpans({batch, chunk}, 1, begin, 20).ok());
}

TEST_CASE("arrivals are the same for a seed, ascending, and keep the mean rate") {
  for (const Arrivals kind : {Arrivals::kPoisson, Arrivals::kBursty}) {
    const auto times = ArrivalTimes(kind, 4000, 10, 4, 3);
    CHECK(times == ArrivalTimes(kind, 4000, 10, 4, 3));
    CHECK(times != ArrivalTimes(kind, 4000, 10, 4, 4));
    CHECK(std::is_sorted(times.begin(), times.end()));
    const double rate = 4000 / (static_cast<double>(times.back()) / 1e9);
    CAPTURE(rate);
    CHECK(std::fabs(rate - 10) < 1.5);
  }
  for (const TimeNs time : ArrivalTimes(Arrivals::kAtOnce, 5, 0, 4, 1)) CHECK(time == 0);
  const auto bursts = ArrivalTimes(Arrivals::kBursty, 8, 10, 4, 1);
  CHECK(bursts[0] == bursts[3]);
  CHECK(bursts[3] < bursts[4]);
}

TEST_CASE("a request set has the shape it was asked for, and its own content in every request") {
  Workload workload;
  workload.requests = 2;
  workload.images = 3;
  workload.image_width = 56;
  workload.image_height = 84;
  workload.text_tokens = 7;
  workload.trailing_text_tokens = 5;
  const auto shape = ShapeOf(workload, model::ImageProcessorConfig());
  REQUIRE(shape.ok());
  CHECK(shape->item_tokens == std::vector<int64_t>{6, 6, 6});
  CHECK(shape->item_begin == std::vector<int64_t>{4, 14, 24});
  CHECK(shape->prompt_tokens == 7 + 3 * (6 + 2) + 5);

  model::ModelConfig config;
  config.text.vocab_size = 1280;
  config.image_token_id = 3;
  const SyntheticRequests set = MakeRequests(workload, config);
  REQUIRE(set.requests.size() == 2);
  REQUIRE(set.pixels.size() == 6);
  CHECK(set.requests[0].parts.size() == 7);
  CHECK(*set.pixels[0] != *set.pixels[1]);
  CHECK(*set.pixels[0] == *MakeRequests(workload, config).pixels[0]);
  for (const RequestPlan& plan : MakePlans(workload, *shape, 8)) {
    RequestPlan valid = plan;
    valid.id = 1;
    CHECK(ValidatePlan(valid).ok());
  }
}

TEST_CASE("percentiles are nearest-rank, medians take the middle") {
  CHECK(Percentile({5, 1, 3}, 0.5) == 3);
  CHECK(Percentile({5, 1, 3}, 0.99) == 5);
  CHECK(Percentile({}, 0.5) == 0);
  CHECK(Median({4, 1, 3, 2}) == 2.5);
  CHECK(Median({3, 1, 2}) == 2);
}

TEST_CASE("the stand-in runs a set through the engine under every scheme") {
  Workload workload;
  workload.requests = 3;
  workload.images = 2;
  const auto shape = ShapeOf(workload, model::ImageProcessorConfig());
  REQUIRE(shape.ok());
  const TimedCosts costs{.encode_ms_per_item = 0, .stage_ms_per_chunk = 0, .stage_ms_fixed = 0};
  const OpenTarget open = OpenTimedTargets(costs, {}, MakePlans(workload, *shape, 4));
  BenchSet set{open, open, *shape, ArrivalTimes(Arrivals::kAtOnce, 3, 0, 1, 1), 1};
  EngineCase engine_case;
  engine_case.topology = *ParseTopology("PP2+E1");
  for (const Scheme scheme :
       {Scheme::kRserve, Scheme::kRserveIntra, Scheme::kEpd, Scheme::kColocated,
        Scheme::kAdaptive}) {
    engine_case.scheme = scheme;
    CAPTURE(engine_case.ToString());
    const auto pass = RunPass(set, engine_case);
    REQUIRE(pass.ok());
    CHECK(pass->ttft_ms.size() == 3);
    CHECK(pass->peak_embedding_bytes > 0);
  }
  const auto solo = RunSolo(set, engine_case);
  REQUIRE(solo.ok());
  CHECK(solo->items.size() == 2);
}

TEST_CASE("a request larger than the embedding limit is measured within the limit") {
  Workload workload;
  workload.requests = 1;
  workload.images = 64;
  const auto shape = ShapeOf(workload, model::ImageProcessorConfig());
  REQUIRE(shape.ok());
  const TimedCosts costs{.encode_ms_per_item = 0, .stage_ms_per_chunk = 0, .stage_ms_fixed = 0};
  const auto plans = MakePlans(workload, *shape, 4);
  EngineFlags four;
  four.embedding_bytes = 4 * shape->item_tokens[0] * 4;
  const BenchSet set{
      OpenTimedTargets(costs, four, plans), OpenTimedTargets(costs, {}, plans), *shape, {0}, 0};
  EngineCase engine_case;
  engine_case.scheme = Scheme::kRserve;
  const auto pass = RunPass(set, engine_case);
  REQUIRE(pass.ok());
  CHECK(pass->peak_embedding_bytes <= four.embedding_bytes);
  const auto solo = RunSolo(set, engine_case);
  REQUIRE(solo.ok());
  CHECK(solo->items.size() == 64);
}

}  // namespace
}  // namespace rserve::tool
