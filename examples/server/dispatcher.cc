#include "dispatcher.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <utility>
#include <vector>

namespace server {

using rserve::capi::Result;

std::optional<rserve_event> Waiter::Next(std::chrono::milliseconds within) {
  std::unique_lock<std::mutex> lock(mutex_);
  if (!arrived_.wait_for(lock, within, [this] { return !events_.empty(); })) return std::nullopt;
  const rserve_event event = events_.front();
  events_.pop_front();
  return event;
}

void Waiter::Push(const rserve_event& event) {
  std::lock_guard<std::mutex> lock(mutex_);
  events_.push_back(event);
  arrived_.notify_one();
}

Dispatcher::Dispatcher(rserve::capi::Engine engine)
    : engine_(std::move(engine)),
      stop_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      thread_([this] { Run(); }) {}

Dispatcher::~Dispatcher() {
  const uint64_t one = 1;
  static_cast<void>(!write(stop_fd_, &one, sizeof(one)));
  thread_.join();
  close(stop_fd_);
}

Result<std::shared_ptr<Waiter>> Dispatcher::Submit(rserve::capi::Request& request) {
  std::lock_guard<std::mutex> lock(mutex_);
  Result<uint64_t> id = engine_.Submit(request);
  if (!id) return id.error();
  auto waiter = std::make_shared<Waiter>(*id);
  waiters_.emplace(*id, waiter);
  return waiter;
}

void Dispatcher::Run() {
  std::vector<rserve_event> events;
  pollfd waiting[2] = {{engine_.wait_fd(), POLLIN, 0}, {stop_fd_, POLLIN, 0}};
  while (waiting[1].revents == 0) {
    poll(waiting, 2, -1);
    if (!engine_.Poll(&events)) continue;
    std::lock_guard<std::mutex> lock(mutex_);
    for (const rserve_event& event : events) {
      const auto it = waiters_.find(event.request_id);
      if (it == waiters_.end()) continue;
      it->second->Push(event);
      if ((event.flags & RSERVE_EVENT_F_MORE) == 0) waiters_.erase(it);
    }
  }
}

}  // namespace server
