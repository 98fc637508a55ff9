// Algorithm 1 as data: what is gathered into batches, and why each of them closes.

#include "rserve/cc/encoder_scheduler.h"

#include <numeric>
#include <vector>

#include "tests/support/catch.h"

namespace rserve::test {
namespace {

using Batch = std::vector<UnitRef>;

bool AlwaysRoom(UnitRef) { return true; }

void Add(EncoderScheduler* scheduler, RequestId id, const std::vector<int64_t>& tokens) {
  std::vector<int32_t> units(tokens.size());
  std::iota(units.begin(), units.end(), 0);
  scheduler->Add(id, id, units, tokens);
}

Batch Next(EncoderScheduler* scheduler, TimeNs now_ns = 0) {
  Batch batch;
  const bool any = scheduler->NextBatch(now_ns, 0, AlwaysRoom, &batch);
  CHECK(any == !batch.empty());
  return batch;
}

UnitRef Prepare(EncoderScheduler* scheduler, TimeNs done_ns = 0) {
  UnitRef unit;
  REQUIRE(scheduler->NextToPrepare(0, AlwaysRoom, &unit));
  scheduler->MarkPrepared(unit, done_ns);
  return unit;
}

TEST_CASE("Algorithm 1: units of a request are gathered up to C, the rest goes as it is") {
  struct Case {
    int64_t c;
    std::vector<int64_t> tokens;
    std::vector<int64_t> batches;  // units in each
  };
  const Case cases[] = {
      {1, {4, 4, 4}, {1, 1, 1}},
      {4, {4, 4, 4}, {1, 1, 1}},
      {5, {4, 4, 4}, {2, 1}},
      {8, {4, 4, 4}, {2, 1}},
      {9, {4, 4, 4}, {3}},
      {100, {4, 4, 4}, {3}},
      {kEncodeAll, {4, 4, 4}, {3}},
      {3, {1, 1, 5, 1, 1, 1, 1}, {3, 3, 1}},
      {1024, {1500, 200, 900, 10}, {1, 2, 1}},
  };
  for (const Case& test : cases) {
    CAPTURE(test.c, test.tokens);
    EncoderSchedulerOptions options;
    options.batch_tokens = test.c;
    EncoderScheduler scheduler(options);
    Add(&scheduler, 1, test.tokens);
    int32_t unit = 0;
    for (const int64_t count : test.batches) {
      const Batch batch = Next(&scheduler);
      REQUIRE(static_cast<int64_t>(batch.size()) == count);
      for (const UnitRef ref : batch) CHECK(ref == UnitRef{1, unit++});  // E1, E2
    }
    CHECK(Next(&scheduler).empty());
  }
}

TEST_CASE("requests are served in order, and share a batch only if told to") {
  for (const bool across : {false, true}) {
    EncoderSchedulerOptions options;
    options.batch_tokens = 10;
    options.across_requests = across;
    EncoderScheduler scheduler(options);
    Add(&scheduler, 2, {4, 4});
    Add(&scheduler, 1, {4});
    const Batch first = Next(&scheduler);
    const Batch second = Next(&scheduler);
    if (across) {
      CHECK(first == Batch{{1, 0}, {2, 0}, {2, 1}});
      CHECK(second.empty());
    } else {
      CHECK(first == Batch{{1, 0}});
      CHECK(second == Batch{{2, 0}, {2, 1}});
    }
  }
}

TEST_CASE(
    "requests are served by the time at which they are due, and C can change between batches") {
  EncoderSchedulerOptions options;
  options.batch_tokens = 8;
  EncoderScheduler scheduler(options);
  Add(&scheduler, 1, {4, 4, 4});
  Add(&scheduler, 2, {4, 4});
  scheduler.SetDue(1, 20);
  scheduler.SetDue(2, 10);
  scheduler.SetDue(7, 10);  // not here: nothing
  CHECK(Next(&scheduler) == Batch{{2, 0}, {2, 1}});
  scheduler.set_batch_tokens(1);
  CHECK(Next(&scheduler) == Batch{{1, 0}});
  scheduler.set_batch_tokens(100);
  CHECK(Next(&scheduler) == Batch{{1, 1}, {1, 2}});
  CHECK(Next(&scheduler).empty());
}

TEST_CASE("E3: a batch closes before the unit that takes it past max_batch_tokens") {
  EncoderSchedulerOptions options;
  options.batch_tokens = kEncodeAll;
  options.max_batch_tokens = 10;
  EncoderScheduler scheduler(options);
  Add(&scheduler, 1, {4, 6, 1, 10, 9, 2});
  const std::vector<size_t> sizes = {2, 1, 1, 1, 1};
  for (const size_t size : sizes) CHECK(Next(&scheduler).size() == size);
  CHECK(Next(&scheduler).empty());
}

TEST_CASE("a batch closes at the unit that has no place, and C does not wait for it") {
  EncoderSchedulerOptions options;
  options.batch_tokens = kEncodeAll;
  EncoderScheduler scheduler(options);
  Add(&scheduler, 1, {4, 4, 4});
  int64_t room = 2;
  const auto place = [&room](UnitRef) { return room-- > 0; };
  Batch batch;
  REQUIRE(scheduler.NextBatch(0, 0, place, &batch));
  CHECK(batch == Batch{{1, 0}, {1, 1}});
  room = 0;
  CHECK_FALSE(scheduler.NextBatch(0, 0, place, &batch));
  CHECK(batch.empty());
  room = 1;
  REQUIRE(scheduler.NextBatch(0, 0, place, &batch));
  CHECK(batch == Batch{{1, 2}});
}

TEST_CASE("the preferred request goes ahead when the first has no place") {
  EncoderScheduler scheduler(EncoderSchedulerOptions{});
  Add(&scheduler, 1, {4});
  Add(&scheduler, 2, {4});
  Add(&scheduler, 3, {4});
  const auto place = [](UnitRef unit) { return unit.request != 1; };
  Batch batch;
  CHECK_FALSE(scheduler.NextBatch(0, 0, place, &batch));
  REQUIRE(scheduler.NextBatch(0, 3, place, &batch));
  CHECK(batch == Batch{{3, 0}});
}

TEST_CASE("with preparation a unit is placed, prepared, and only then encoded") {
  EncoderSchedulerOptions options;
  options.prepare = true;
  options.batch_tokens = 1;
  EncoderScheduler scheduler(options);
  Add(&scheduler, 1, {4, 4});
  CHECK(Next(&scheduler).empty());
  UnitRef unit;
  CHECK_FALSE(scheduler.NextToPrepare(
      0, [](UnitRef) { return false; }, &unit));
  REQUIRE(scheduler.NextToPrepare(0, AlwaysRoom, &unit));
  CHECK(unit == UnitRef{1, 0});
  CHECK(Next(&scheduler).empty());
  // The second is prepared first: prompt order holds it back.
  UnitRef second;
  REQUIRE(scheduler.NextToPrepare(0, AlwaysRoom, &second));
  CHECK(second == UnitRef{1, 1});
  scheduler.MarkPrepared(second, 0);
  CHECK(Next(&scheduler).empty());
  scheduler.MarkPrepared(unit, 0);
  CHECK(Next(&scheduler) == Batch{{1, 0}});
  CHECK(Next(&scheduler) == Batch{{1, 1}});
  CHECK_FALSE(scheduler.NextToPrepare(0, AlwaysRoom, &unit));
}

TEST_CASE("a unit that is being prepared is waited for, up to flush_ns") {
  EncoderSchedulerOptions options;
  options.prepare = true;
  options.batch_tokens = 100;
  options.flush_ns = 50;
  EncoderScheduler scheduler(options);
  Add(&scheduler, 1, {4, 4});
  Prepare(&scheduler, 10);
  UnitRef unit;
  REQUIRE(scheduler.NextToPrepare(0, AlwaysRoom, &unit));  // on its way
  CHECK(Next(&scheduler, 10).empty());
  CHECK(scheduler.next_flush_ns() == 60);
  CHECK(Next(&scheduler, 59).empty());
  CHECK(Next(&scheduler, 60) == Batch{{1, 0}});
  CHECK(Next(&scheduler, 60).empty());
  CHECK(scheduler.next_flush_ns() == kNever);
  scheduler.MarkPrepared(unit, 70);
  CHECK(Next(&scheduler, 70) == Batch{{1, 1}});  // nothing left to wait for
}

TEST_CASE("a request that waits for its next unit does not hold up the one behind it") {
  EncoderSchedulerOptions options;
  options.prepare = true;
  options.batch_tokens = 8;
  options.flush_ns = 1000;
  EncoderScheduler scheduler(options);
  Add(&scheduler, 1, {4, 4});
  Add(&scheduler, 2, {8});
  Prepare(&scheduler);
  UnitRef unit;
  REQUIRE(scheduler.NextToPrepare(0, AlwaysRoom, &unit));  // 1.1, on its way
  REQUIRE(Prepare(&scheduler) == UnitRef{2, 0});
  CHECK(Next(&scheduler) == Batch{{2, 0}});
}

TEST_CASE("C does not wait for a unit that has no place to be prepared in") {
  EncoderSchedulerOptions options;
  options.prepare = true;
  options.batch_tokens = 100;
  options.flush_ns = 1000000;
  EncoderScheduler scheduler(options);
  Add(&scheduler, 1, {4, 4});
  Prepare(&scheduler);
  UnitRef unit;
  CHECK_FALSE(scheduler.NextToPrepare(
      0, [](UnitRef) { return false; }, &unit));
  CHECK(Next(&scheduler) == Batch{{1, 0}});
}

TEST_CASE("a requeued unit comes before all later ones") {
  EncoderSchedulerOptions options;
  options.batch_tokens = 1;
  EncoderScheduler scheduler(options);
  Add(&scheduler, 1, {4, 4, 4});
  REQUIRE(Next(&scheduler) == Batch{{1, 0}});
  REQUIRE(Next(&scheduler) == Batch{{1, 1}});
  scheduler.Requeue({1, 0}, 5);
  CHECK(Next(&scheduler) == Batch{{1, 0}});
  CHECK(Next(&scheduler) == Batch{{1, 2}});
  CHECK(Next(&scheduler).empty());
}

TEST_CASE("a requeued unit holds its place: it goes ahead of an older request that has none") {
  EncoderSchedulerOptions options;
  options.batch_tokens = 1;
  EncoderScheduler scheduler(options);
  Add(&scheduler, 2, {4});
  REQUIRE(Next(&scheduler) == Batch{{2, 0}});
  Add(&scheduler, 1, {4});
  scheduler.Requeue({2, 0}, 5);
  Batch batch;
  REQUIRE(scheduler.NextBatch(
      5, 0, [](UnitRef unit) { return unit.request == 2; }, &batch));
  CHECK(batch == Batch{{2, 0}});
}

TEST_CASE("a removed request is forgotten with all its units") {
  EncoderSchedulerOptions options;
  options.prepare = true;
  EncoderScheduler scheduler(options);
  Add(&scheduler, 1, {4, 4});
  Add(&scheduler, 2, {4});
  Prepare(&scheduler);
  scheduler.Remove(1);
  CHECK_FALSE(scheduler.Contains(1));
  CHECK(Next(&scheduler).empty());
  CHECK(Prepare(&scheduler) == UnitRef{2, 0});
  CHECK(Next(&scheduler) == Batch{{2, 0}});
}

}  // namespace
}  // namespace rserve::test
