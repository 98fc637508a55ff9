// EventQueue: events on their way to the host, and the eventfd that says so.
//
// Delivery cannot fail: events travel in list nodes that were allocated when their request was
// submitted (Inbox::Submit), so Push moves pointers only.
//
// The fd is a hint. It is readable whenever there are events that Poll has not seen, and now and
// then when there are none. Wakeups coalesce: the fd is written once until the next Poll.
//
// Invariant: while no Push and no Poll is under way, a non-empty queue has a readable fd.

#ifndef RSERVE_SRC_RUNTIME_EVENT_QUEUE_H_
#define RSERVE_SRC_RUNTIME_EVENT_QUEUE_H_

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "rserve/cc/engine.h"
#include "src/runtime/unique_fd.h"

namespace rserve::runtime {

class EventQueue {
 public:
  // Fails where the process has no file descriptor left.
  static absl::StatusOr<std::unique_ptr<EventQueue>> Create();

  // Appends the events in their order. [any-thread]
  void Push(std::list<Event> events) noexcept;

  // Engine::Poll. If `out` cannot grow it throws, and no event is lost. [one thread]
  int64_t Poll(int64_t capacity, std::vector<Event>* out);

  int fd() const { return fd_.get(); }

 private:
  explicit EventQueue(UniqueFd fd) : fd_(std::move(fd)) {}
  void Signal();

  const UniqueFd fd_;
  std::mutex mu_;
  std::list<Event> events_;  // guarded by mu_
  bool signalled_ = false;   // guarded by mu_; the fd was written, or is about to be
};

}  // namespace rserve::runtime

#endif  // RSERVE_SRC_RUNTIME_EVENT_QUEUE_H_
