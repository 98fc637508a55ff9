#include "src/runtime/event_queue.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <utility>

namespace rserve::runtime {

absl::StatusOr<std::unique_ptr<EventQueue>> EventQueue::Create() {
  UniqueFd fd(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!fd.valid()) return absl::ErrnoToStatus(errno, "eventfd");
  return std::unique_ptr<EventQueue>(new EventQueue(std::move(fd)));
}

void EventQueue::Push(std::list<Event> events) noexcept {
  if (events.empty()) return;
  bool signal;
  {
    std::lock_guard<std::mutex> lock(mu_);
    events_.splice(events_.end(), events);
    signal = !std::exchange(signalled_, true);
  }
  if (signal) Signal();
}

int64_t EventQueue::Poll(int64_t capacity, std::vector<Event>* out) {
  size_t count;
  {
    std::lock_guard<std::mutex> lock(mu_);
    count = std::min(events_.size(), static_cast<size_t>(std::max<int64_t>(capacity, 0)));
  }
  if (const size_t size = out->size() + count; size > out->capacity()) {
    out->reserve(std::max(size, 2 * out->capacity()));
  }

  // The fd is drained before the queue is looked at: an event pushed in between is then either
  // taken below or signalled again, never left behind a quiet fd.
  uint64_t wakeups;
  while (::read(fd_.get(), &wakeups, sizeof(wakeups)) < 0 && errno == EINTR) {
  }
  std::list<Event> taken;
  bool signal;
  {
    std::lock_guard<std::mutex> lock(mu_);
    count = std::min(count, events_.size());
    taken.splice(taken.end(), events_, events_.begin(), std::next(events_.begin(), count));
    signal = signalled_ = !events_.empty();
  }
  if (signal) Signal();
  std::move(taken.begin(), taken.end(), std::back_inserter(*out));
  return static_cast<int64_t>(count);
}

void EventQueue::Signal() {
  const uint64_t one = 1;
  // The only other failure, a counter at its maximum, means that the fd is readable anyway.
  while (::write(fd_.get(), &one, sizeof(one)) < 0 && errno == EINTR) {
  }
}

}  // namespace rserve::runtime
