// Algorithm 2, the three gaps of its printed pseudo-code, and what entering means.

#include "rserve/cc/token_scheduler.h"

#include <map>
#include <vector>

#include "tests/support/catch.h"

namespace rserve::test {
namespace {

using Batch = std::vector<BatchEntry>;

// A queue whose requests give whatever is schedulable.
class Queue {
 public:
  explicit Queue(int64_t budget, Sharing sharing = Sharing::kMany, bool one_chunk = false)
      : scheduler({budget, sharing, one_chunk}) {}

  void Add(RequestId id, int64_t prompt, int64_t schedulable) {
    scheduler.Add(id, id, prompt);
    scheduler.SetSchedulable(id, schedulable);
  }
  Batch Next() {
    Batch batch;
    const bool any = scheduler.Next([](RequestId, int64_t limit) { return limit; },
                                    [this](RequestId id) { return id != refused; }, &batch);
    CHECK(any == !batch.empty());
    return batch;
  }

  TokenScheduler scheduler;
  RequestId refused = 0;  // `enter` says no to it
};

TEST_CASE("S1: a micro-batch is filled across requests up to B, in order") {
  Queue queue(10);
  queue.Add(2, 6, 6);
  queue.Add(1, 5, 5);
  queue.Add(3, 4, 4);
  CHECK(queue.Next() == Batch{{1, 0, 5}, {2, 0, 5}});
  CHECK(queue.Next() == Batch{{2, 5, 1}, {3, 0, 4}});
  CHECK(queue.Next().empty());
}

TEST_CASE("gap 1: a request is finished when what remains of its prompt is taken") {
  Queue queue(4);
  queue.Add(1, 10, 10);
  CHECK(queue.Next() == Batch{{1, 0, 4}});
  CHECK(queue.scheduler.Remaining(1) == 6);
  queue.scheduler.SetSchedulable(1, 6);  // t = p - taken: not its length, yet the last of it
  CHECK(queue.Next() == Batch{{1, 4, 4}});
  CHECK(queue.Next() == Batch{{1, 8, 2}});
  CHECK(queue.scheduler.Remaining(1) == 0);
  CHECK(queue.Next().empty());
}

TEST_CASE("gap 2: a request with more schedulable tokens than the budget gives a part and stays") {
  Queue queue(4);
  queue.Add(1, 6, 6);  // t = p > B
  queue.Add(2, 3, 3);
  CHECK(queue.Next() == Batch{{1, 0, 4}});
  CHECK(queue.Next() == Batch{{1, 4, 2}, {2, 0, 2}});
  CHECK(queue.Next() == Batch{{2, 2, 1}});
}

TEST_CASE(
    "gap 3: a request without schedulable tokens is passed, keeps its place, is in no batch") {
  Queue queue(8);
  queue.Add(1, 6, 0);
  queue.Add(2, 4, 4);
  queue.Add(3, 9, 9);
  CHECK(queue.scheduler.Front() == 2);
  CHECK(queue.Next() == Batch{{2, 0, 4}, {3, 0, 4}});
  queue.scheduler.SetSchedulable(1, 6);
  CHECK(queue.scheduler.Front() == 1);
  CHECK(queue.Next() == Batch{{1, 0, 6}, {3, 4, 2}});
}

TEST_CASE("S2: who finds no room to enter closes the batch to all that have not entered") {
  Queue queue(10);
  queue.Add(1, 4, 2);
  REQUIRE(queue.Next() == Batch{{1, 0, 2}});
  queue.Add(2, 3, 3);
  queue.Add(3, 3, 3);
  queue.scheduler.SetSchedulable(1, 2);
  queue.refused = 2;
  CHECK(queue.Next() == Batch{{1, 2, 2}});  // entered: goes on; 3 may not enter before 2
  CHECK(queue.Next().empty());
  CHECK_FALSE(queue.scheduler.HasEntered(3));
  queue.refused = 0;
  CHECK(queue.Next() == Batch{{2, 0, 3}, {3, 0, 3}});
}

TEST_CASE("an entered request behind one that cannot enter still goes on") {
  Queue queue(10);
  queue.Add(2, 6, 3);
  REQUIRE(queue.Next() == Batch{{2, 0, 3}});
  queue.Add(1, 3, 3);
  queue.scheduler.SetSchedulable(2, 3);
  queue.refused = 1;
  CHECK(queue.Next() == Batch{{2, 3, 3}});
}

TEST_CASE("S3: with one request the next waits for the last retirement of the one in flight") {
  Queue queue(4, Sharing::kOneRequest);
  queue.Add(1, 6, 6);
  queue.Add(2, 2, 2);
  CHECK(queue.Next() == Batch{{1, 0, 4}});
  CHECK(queue.Next() == Batch{{1, 4, 2}});
  CHECK(queue.Next().empty());
  queue.scheduler.Retire(1);
  CHECK(queue.Next().empty());
  queue.scheduler.Retire(1);
  CHECK(queue.Next() == Batch{{2, 0, 2}});
}

TEST_CASE("with one request, its removal in flight frees the pipeline at its last retirement") {
  Queue queue(4, Sharing::kOneRequest);
  queue.Add(1, 6, 6);
  queue.Add(2, 2, 2);
  REQUIRE(queue.Next() == Batch{{1, 0, 4}});
  queue.scheduler.Remove(1);
  CHECK_FALSE(queue.scheduler.Contains(1));
  queue.scheduler.Retire(1);
  CHECK(queue.Next() == Batch{{2, 0, 2}});
}

TEST_CASE("vanilla PP: the next chunk waits until the one before is retired, others do not") {
  Queue queue(4, Sharing::kMany, /*one_chunk=*/true);
  queue.Add(1, 8, 8);
  queue.Add(2, 3, 3);
  CHECK(queue.Next() == Batch{{1, 0, 4}});
  CHECK(queue.scheduler.InFlight(1) == 1);
  CHECK(queue.Next() == Batch{{2, 0, 3}});
  CHECK(queue.Next().empty());
  queue.scheduler.Retire(1);
  CHECK(queue.scheduler.InFlight(1) == 0);
  CHECK(queue.Next() == Batch{{1, 4, 4}});
}

TEST_CASE("chunked PP: several chunks of a request are in flight") {
  Queue queue(4);
  queue.Add(1, 8, 8);
  CHECK(queue.Next() == Batch{{1, 0, 4}});
  CHECK(queue.Next() == Batch{{1, 4, 4}});
  CHECK(queue.scheduler.InFlight(1) == 2);
}

TEST_CASE("the answers of a request that gives no tokens") {
  struct Case {
    int64_t answer;
    Batch expected;
  };
  const Case cases[] = {
      {TokenScheduler::kCloseBatch, {{1, 0, 2}}},  // nobody behind it either
      {TokenScheduler::kPassRequest, {{1, 0, 2}, {3, 0, 2}}},
      {TokenScheduler::kNoBatch, {}},           // nothing is taken at all
      {TokenScheduler::kNoEntry, {{1, 0, 2}}},  // 3 has not entered
  };
  for (const Case& test : cases) {
    CAPTURE(test.answer);
    Queue queue(10);
    for (const RequestId id : {1, 2, 3}) queue.Add(id, 2, 2);
    Batch batch;
    queue.scheduler.Next([&](RequestId id, int64_t limit) { return id == 2 ? test.answer : limit; },
                         [](RequestId) { return true; }, &batch);
    CHECK(batch == test.expected);
    CHECK(queue.scheduler.Remaining(2) == 2);
    CHECK(queue.scheduler.Remaining(1) == (test.expected.empty() ? 2 : 0));
  }
}

TEST_CASE("who has entered a batch that was given up is inside, also when nobody else may enter") {
  Queue queue(10);
  for (const RequestId id : {1, 2, 3}) queue.Add(id, 2, 2);
  Batch batch;
  CHECK_FALSE(queue.scheduler.Next(
      [](RequestId id, int64_t limit) {
        if (id == 1) return TokenScheduler::kPassRequest;
        return id == 3 ? TokenScheduler::kNoBatch : limit;
      },
      [](RequestId) { return true; }, &batch));
  CHECK(batch.empty());
  CHECK(queue.scheduler.HasEntered(2));
  CHECK_FALSE(queue.scheduler.HasEntered(1));
  CHECK(queue.scheduler.Next(
      [](RequestId id, int64_t limit) { return id == 1 ? TokenScheduler::kNoEntry : limit; },
      [](RequestId) { return false; }, &batch));
  CHECK(batch == Batch{{2, 0, 2}});
}

TEST_CASE("a chunk may be smaller than asked for; the batch goes on with the next request") {
  Queue queue(10);
  queue.Add(1, 8, 8);
  queue.Add(2, 4, 4);
  Batch batch;
  REQUIRE(
      queue.scheduler.Next([](RequestId id, int64_t limit) { return id == 1 ? int64_t{5} : limit; },
                           [](RequestId) { return true; }, &batch));
  CHECK(batch == Batch{{1, 0, 5}, {2, 0, 4}});
  CHECK(queue.scheduler.Remaining(1) == 3);
}

TEST_CASE("requests are taken by the time at which they are due, then in order") {
  Queue queue(10);
  for (RequestId id = 1; id <= 4; ++id) queue.Add(id, 4, 4);
  queue.scheduler.SetDue(1, 50);
  queue.scheduler.SetDue(2, 40);
  queue.scheduler.SetDue(3, 50);
  queue.scheduler.SetDue(4, 30);
  CHECK(queue.Next() == Batch{{4, 0, 4}, {2, 0, 4}, {1, 0, 2}});
  queue.scheduler.SetDue(3, 20);  // while it waits
  queue.scheduler.SetDue(1, 21);  // while it has entered
  CHECK(queue.Next() == Batch{{3, 0, 4}, {1, 2, 2}});
}

TEST_CASE("due times are kept while a request has nothing to give") {
  Queue queue(10);
  queue.Add(1, 8, 0);
  queue.Add(2, 8, 0);
  queue.scheduler.SetDue(1, 9);
  queue.scheduler.SetDue(2, 8);
  queue.scheduler.SetSchedulable(1, 8);
  queue.scheduler.SetSchedulable(2, 8);
  CHECK(queue.Next() == Batch{{2, 0, 8}, {1, 0, 2}});
}

TEST_CASE("S1: a smaller B holds, unless the first entry cannot be split to fit") {
  TokenScheduler scheduler({20, Sharing::kMany, false});
  scheduler.set_budget_tokens(6);
  for (RequestId id = 1; id <= 2; ++id) {
    scheduler.Add(id, id, 10);
    scheduler.SetSchedulable(id, 10);
  }
  Batch batch;
  const auto enter = [](RequestId) { return true; };
  REQUIRE(scheduler.Next([](RequestId, int64_t limit) { return limit; }, enter, &batch));
  CHECK(batch == Batch{{1, 0, 6}});
  // From here on chunks are of ten or, at the end of a prompt, of what is left.
  const auto whole = [&](RequestId id, int64_t limit) {
    return limit >= scheduler.Remaining(id) ? scheduler.Remaining(id) : TokenScheduler::kCloseBatch;
  };
  REQUIRE(scheduler.Next(whole, enter, &batch));
  CHECK(batch == Batch{{1, 6, 4}});
  REQUIRE(scheduler.Next(whole, enter, &batch));
  CHECK(batch == Batch{{2, 0, 10}});
}

TEST_CASE("the oldest is tried when nobody is inside and the first due finds no room") {
  Queue queue(10);
  for (RequestId id = 1; id <= 3; ++id) queue.Add(id, 4, 4);
  queue.scheduler.SetDue(1, 30);
  queue.scheduler.SetDue(2, 20);
  queue.scheduler.SetDue(3, 10);
  queue.refused = 3;
  CHECK(queue.Next() == Batch{{1, 0, 4}});
  CHECK(queue.Next().empty());  // one is inside: it will make room
}

}  // namespace
}  // namespace rserve::test
