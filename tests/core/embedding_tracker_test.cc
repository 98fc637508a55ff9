#include "rserve/cc/embedding_tracker.h"

#include <vector>

#include "tests/core/plan_builder.h"
#include "tests/core/rng.h"
#include "tests/core/shadow_plan.h"
#include "tests/support/catch.h"

namespace rserve::test {
namespace {

void Encode(EmbeddingTracker* tracker, UnitRef unit) {
  tracker->Reserve(unit);
  tracker->MarkReady(unit);
}

std::vector<int32_t> Commit(EmbeddingTracker* tracker, RequestId id, int64_t tokens) {
  std::vector<int32_t> released;
  tracker->Commit(id, tokens, &released);
  return released;
}

TEST_CASE("text is ready at once and items are not") {
  EmbeddingTracker tracker;
  REQUIRE(tracker.Add(PlanBuilder(1).Text(3).Image(4).Text(2).Build()).ok());
  CHECK(tracker.Contains(1));
  CHECK(tracker.PromptTokens(1) == 9);
  CHECK(tracker.Schedulable(1) == 3);
  CHECK(tracker.Frontier(1) == 3);
  Encode(&tracker, {1, 0});
  CHECK(tracker.Schedulable(1) == 9);
}

TEST_CASE("T1 T2: the frontier stops at the first unit that is not ready, whatever comes behind") {
  EmbeddingTracker tracker;
  REQUIRE(tracker.Add(PlanBuilder(1).Image(2).Image(3).Text(1).Image(4).Build()).ok());
  CHECK(tracker.Schedulable(1) == 0);
  Encode(&tracker, {1, 2});
  Encode(&tracker, {1, 1});
  CHECK(tracker.Frontier(1) == 0);
  Encode(&tracker, {1, 0});
  CHECK(tracker.Frontier(1) == 10);
}

TEST_CASE("a span over several units is passed unit by unit, an atomic one whole") {
  EmbeddingTracker tracker;
  REQUIRE(tracker.Add(PlanBuilder(1).Text(1).Item({2, 3, 4}).Build()).ok());
  REQUIRE(tracker.Add(PlanBuilder(2).Text(1).Item({2, 3, 4}, /*atomic=*/true).Build()).ok());
  const int64_t streamed[] = {3, 6, 10};
  const int64_t whole[] = {1, 1, 10};
  for (int32_t u = 0; u < 3; ++u) {
    Encode(&tracker, {1, u});
    Encode(&tracker, {2, u});
    CHECK(tracker.Frontier(1) == streamed[u]);
    CHECK(tracker.Frontier(2) == whole[u]);
  }
}

TEST_CASE("LargestChunk never cuts an atomic span and never exceeds the limit") {
  EmbeddingTracker tracker;
  REQUIRE(tracker.Add(PlanBuilder(1).Text(3).Item({4}, true).Text(2).Build()).ok());
  Encode(&tracker, {1, 0});
  const int64_t expected[] = {0, 1, 2, 3, 3, 3, 3, 7, 8, 9, 9, 9};
  for (int64_t limit = 0; limit < 12; ++limit) {
    CAPTURE(limit);
    CHECK(tracker.LargestChunk(1, limit) == expected[limit]);
  }
  tracker.Schedule(1, 3);
  CHECK(tracker.LargestChunk(1, 3) == 0);
  CHECK(tracker.LargestChunk(1, 4) == 4);
  CHECK(tracker.LargestChunk(1, INT64_MAX) == 6);
}

TEST_CASE("scheduled progress releases nothing, committed progress does (vllm#38551)") {
  EmbeddingTracker tracker;
  REQUIRE(tracker.Add(PlanBuilder(1).Image(4).Image(2).Build()).ok());
  Encode(&tracker, {1, 0});
  Encode(&tracker, {1, 1});
  CHECK(tracker.live_bytes() == 6);
  tracker.Schedule(1, 6);
  CHECK(tracker.Scheduled(1) == 6);
  CHECK(tracker.live_bytes() == 6);
  CHECK(Commit(&tracker, 1, 3).empty());
  CHECK(tracker.live_bytes() == 6);
  CHECK(Commit(&tracker, 1, 1) == std::vector<int32_t>{0});
  CHECK(tracker.live_bytes() == 2);
  CHECK_FALSE(tracker.IsReserved({1, 0}));
  CHECK(Commit(&tracker, 1, 2) == std::vector<int32_t>{1});
  CHECK(tracker.Committed(1) == 6);
  CHECK(tracker.live_bytes() == 0);
  CHECK(tracker.peak_bytes() == 6);
}

TEST_CASE("a unit that is read twice lives until its last reader is committed") {
  EmbeddingTracker tracker;
  REQUIRE(tracker.Add(PlanBuilder(1).Image(4).Image(2).Text(3).Span(0, 1, 2).Build()).ok());
  Encode(&tracker, {1, 0});
  Encode(&tracker, {1, 1});
  tracker.Schedule(1, 11);
  CHECK(Commit(&tracker, 1, 10) == std::vector<int32_t>{1});
  CHECK(Commit(&tracker, 1, 1) == std::vector<int32_t>{0});
}

TEST_CASE("T3: bytes count from the reservation on, once") {
  EmbeddingTracker tracker;
  REQUIRE(tracker.Add(PlanBuilder(1).Image(4).Build()).ok());
  tracker.Reserve({1, 0});
  tracker.Reserve({1, 0});
  CHECK(tracker.live_bytes() == 4);
  CHECK(tracker.IsReserved({1, 0}));
  CHECK_FALSE(tracker.IsReady({1, 0}));
  tracker.Release({1, 0});
  tracker.Release({1, 0});
  CHECK(tracker.live_bytes() == 0);
  CHECK(tracker.peak_bytes() == 4);
  tracker.Remove(1);
  CHECK_FALSE(tracker.Contains(1));
}

TEST_CASE("a chunk may be smaller than an item and begin inside of it") {
  EmbeddingTracker tracker;
  REQUIRE(tracker.Add(PlanBuilder(1).Text(2).Item({3, 4}).Span(0, 1, 3).Build()).ok());
  std::vector<EmbeddingSlice> slices;
  tracker.Slices(1, 4, 7, &slices);
  REQUIRE(slices.size() >= 3);
  CHECK(ShadowPlan(PlanBuilder(1).Text(2).Item({3, 4}).Span(0, 1, 3).Build())
            .SlicesMatch(4, 7, slices));
  CHECK(slices[0].unit == 0);
  CHECK(slices[0].token_begin == 4);
  CHECK(slices[0].row_begin == 2);
  CHECK(slices[0].tokens == 1);
}

TEST_CASE("Add refuses what is malformed or there already") {
  EmbeddingTracker tracker;
  RequestPlan plan = PlanBuilder(7).Text(1).Build();
  REQUIRE(tracker.Add(plan).ok());
  CHECK(tracker.Add(plan).code() == absl::StatusCode::kAlreadyExists);
  plan.id = 8;
  plan.prompt_tokens = 0;
  CHECK(tracker.Add(plan).code() == absl::StatusCode::kInvalidArgument);
  CHECK_FALSE(tracker.Contains(8));
}

// Against the plain computation of ShadowPlan: any order of encodes, any chunks.
TEST_CASE("random plans: frontier, chunks, slices and releases agree with a plain computation") {
  for (uint64_t seed = 1; seed <= 2000; ++seed) {
    CAPTURE(seed);
    Rng rng(seed);
    PlanBuilder builder(1);
    builder.Text(rng.In(0, 3));
    const int64_t items = rng.In(1, 4);
    for (int32_t item = 0; item < items; ++item) {
      const int64_t a = rng.In(1, 4), b = rng.In(1, 4);
      if (rng.Percent(50)) {
        builder.Item({a, b}, rng.Percent(30));
      } else {
        builder.Item({a}, rng.Percent(30));
      }
      if (rng.Percent(30)) builder.Span(static_cast<int32_t>(rng.In(0, item)), 0, 1);
      builder.Text(rng.In(0, 2));
    }
    const ShadowPlan shape(builder.Build());
    EmbeddingTracker tracker;
    REQUIRE(tracker.Add(shape.plan()).ok());
    std::vector<int32_t> order = shape.prompt_order();
    rng.Shuffle(&order);
    std::vector<bool> encoded(order.size(), false), released(order.size(), false);
    int64_t scheduled = 0, committed = 0, live = 0;
    size_t next = 0;
    while (committed < shape.plan().prompt_tokens) {
      const int64_t frontier = shape.FrontierOf(encoded, 0);
      REQUIRE(tracker.Frontier(1) == frontier);
      const int64_t limit = rng.In(1, 20);
      const int64_t chunk = tracker.LargestChunk(1, limit);
      REQUIRE(chunk == shape.LargestChunk(scheduled, limit, frontier));
      if (chunk > 0 && rng.Percent(50)) {
        std::vector<EmbeddingSlice> slices;
        tracker.Slices(1, scheduled, chunk, &slices);
        REQUIRE(shape.SlicesMatch(scheduled, chunk, slices));
        tracker.Schedule(1, chunk);
        scheduled += chunk;
      } else if (scheduled > committed && rng.Percent(50)) {
        const int64_t tokens = rng.In(1, scheduled - committed);
        committed += tokens;
        for (const int32_t unit : Commit(&tracker, 1, tokens)) {
          REQUIRE_FALSE(released[unit]);
          released[unit] = true;
          live -= shape.plan().units[unit].embedding_bytes;
        }
        for (int32_t u = 0; u < shape.num_units(); ++u) {
          int64_t end = 0;
          for (const Piece& piece : shape.pieces()) {
            if (piece.unit == u) end = std::max(end, piece.end());
          }
          REQUIRE(released[u] == (end <= committed));
        }
      } else if (next < order.size()) {
        Encode(&tracker, {1, order[next]});
        encoded[order[next]] = true;
        live += shape.plan().units[order[next]].embedding_bytes;
        ++next;
      }
      REQUIRE(tracker.live_bytes() == live);
    }
    tracker.Remove(1);
  }
}

TEST_CASE("what is skipped needs no unit and releases those that nothing else reads") {
  EmbeddingTracker tracker;
  // 2 text, 4 rows of unit 0, 4 of unit 1, 2 text, unit 0's rows once more.
  const RequestPlan plan = PlanBuilder(1).Text(2).Image(4).Image(4).Text(2).Span(0, 0, 4).Build();
  REQUIRE(tracker.Add(plan).ok());
  std::vector<int32_t> released;
  tracker.Skip(1, 8, &released);  // ends within unit 1
  CHECK(released.empty());
  CHECK(tracker.Scheduled(1) == 8);
  CHECK(tracker.Committed(1) == 8);
  CHECK(tracker.Frontier(1) == 8);
  tracker.Reserve({1, 1});
  tracker.MarkReady({1, 1});
  CHECK(tracker.Frontier(1) == 12);  // unit 0 is read again
  tracker.Skip(1, 2, &released);
  CHECK(released == std::vector<int32_t>{1});
  CHECK(tracker.Schedulable(1) == 2);
  CHECK(tracker.live_bytes() == 0);
}

}  // namespace
}  // namespace rserve::test
