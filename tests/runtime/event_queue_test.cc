#include "src/runtime/event_queue.h"

#include <fcntl.h>

#include "tests/runtime/engine_fixture.h"
#include "tests/support/catch.h"

namespace rserve::runtime {
namespace {

using rserve::testing::Readable;

std::unique_ptr<EventQueue> NewQueue() {
  auto queue = EventQueue::Create();
  REQUIRE(queue.ok());
  return *std::move(queue);
}

std::list<Event> Events(RequestId first, int count) {
  std::list<Event> events(static_cast<size_t>(count));
  for (Event& event : events) event.request = first++;
  return events;
}

TEST_CASE("The wait fd is readable while there are events and quiet after all are polled") {
  auto queue = NewQueue();
  CHECK_FALSE(Readable(queue->fd()));
  queue->Push(Events(1, 3));
  CHECK(Readable(queue->fd()));

  std::vector<Event> out;
  CHECK(queue->Poll(10, &out) == 3);
  CHECK_FALSE(Readable(queue->fd()));
  CHECK(queue->Poll(10, &out) == 0);
  REQUIRE(out.size() == 3);
  CHECK(out[0].request == 1);
  CHECK(out[2].request == 3);
}

TEST_CASE("A poll that stops at its capacity leaves the wait fd readable") {
  auto queue = NewQueue();
  queue->Push(Events(1, 3));
  std::vector<Event> out;
  CHECK(queue->Poll(1, &out) == 1);
  CHECK(Readable(queue->fd()));
  CHECK(queue->Poll(1, &out) == 1);
  CHECK(Readable(queue->fd()));
  CHECK(queue->Poll(1, &out) == 1);
  CHECK_FALSE(Readable(queue->fd()));
  CHECK(out.size() == 3);
}

TEST_CASE("A poll without capacity takes nothing and leaves the wait fd as it was") {
  auto queue = NewQueue();
  std::vector<Event> out;
  CHECK(queue->Poll(0, &out) == 0);
  CHECK_FALSE(Readable(queue->fd()));
  queue->Push(Events(1, 1));
  CHECK(queue->Poll(0, &out) == 0);
  CHECK(queue->Poll(-1, &out) == 0);
  CHECK(out.empty());
  CHECK(Readable(queue->fd()));
}

TEST_CASE("Wakeups coalesce into one, and the next push after a poll wakes again") {
  auto queue = NewQueue();
  queue->Push(Events(1, 1));
  queue->Push(Events(2, 1));
  std::vector<Event> out;
  CHECK(queue->Poll(10, &out) == 2);
  CHECK_FALSE(Readable(queue->fd()));
  queue->Push(Events(3, 1));
  CHECK(Readable(queue->fd()));
}

TEST_CASE("Poll appends to what the caller has") {
  auto queue = NewQueue();
  queue->Push(Events(7, 1));
  std::vector<Event> out(1);
  CHECK(queue->Poll(1, &out) == 1);
  REQUIRE(out.size() == 2);
  CHECK(out[1].request == 7);
}

TEST_CASE("The wait fd is closed on exec and never blocks") {
  auto queue = NewQueue();
  CHECK((::fcntl(queue->fd(), F_GETFD) & FD_CLOEXEC) != 0);
  CHECK((::fcntl(queue->fd(), F_GETFL) & O_NONBLOCK) != 0);
}

}  // namespace
}  // namespace rserve::runtime
