// One thread that polls the engine and hands each request's events to whoever waits for them.

#ifndef RSERVE_EXAMPLES_SERVER_DISPATCHER_H_
#define RSERVE_EXAMPLES_SERVER_DISPATCHER_H_

#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_map>

#include "rserve/rserve.hpp"

namespace server {

// The events of one request.
class Waiter {
 public:
  explicit Waiter(uint64_t id) : id_(id) {}
  uint64_t id() const { return id_; }
  // The next event, or nothing within the time.
  std::optional<rserve_event> Next(std::chrono::milliseconds within);

 private:
  friend class Dispatcher;
  void Push(const rserve_event& event);

  const uint64_t id_;
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<rserve_event> events_;
};

class Dispatcher {
 public:
  explicit Dispatcher(rserve::capi::Engine engine);
  // Aborts what is open.
  ~Dispatcher();

  // Any thread. The waiter gets every event up to the terminal one.
  rserve::capi::Result<std::shared_ptr<Waiter>> Submit(rserve::capi::Request& request);
  rserve::capi::Engine& engine() { return engine_; }

 private:
  void Run();

  rserve::capi::Engine engine_;
  int stop_fd_;
  std::mutex mutex_;  // a submit and the entry into waiters_ are one step
  std::unordered_map<uint64_t, std::shared_ptr<Waiter>> waiters_;
  std::thread thread_;
};

}  // namespace server

#endif  // RSERVE_EXAMPLES_SERVER_DISPATCHER_H_
