// The engine's time base (CLOCK_MONOTONIC in nanoseconds) and the clocks that timed executors wait
// on: the real one, and one that a test moves by hand.

#ifndef RSERVE_SRC_RUNTIME_CLOCK_H_
#define RSERVE_SRC_RUNTIME_CLOCK_H_

#include <condition_variable>
#include <mutex>
#include <set>

#include "rserve/cc/request_plan.h"

namespace rserve::runtime {

// The time of Engine::now_ns(), of deadlines, events and trace spans.
TimeNs MonotonicNow();

// Something to wait on. [any-thread]
class Clock {
 public:
  virtual ~Clock() = default;
  virtual TimeNs Now() = 0;
  // Blocks the calling thread until Now() >= `time_ns`.
  virtual void SleepUntil(TimeNs time_ns) = 0;
};

// Sleeps until an absolute time, so that a late wake-up is not added to the next wait.
class SystemClock final : public Clock {
 public:
  TimeNs Now() override { return MonotonicNow(); }
  void SleepUntil(TimeNs time_ns) override;
};

// Stands still until AdvanceTo. A test waits until as many threads sleep as it expects, then moves
// the time to the next wake-up: real threads, no real waiting.
class ManualClock final : public Clock {
 public:
  TimeNs Now() override;
  void SleepUntil(TimeNs time_ns) override;

  // Blocks until `count` threads or more sleep, and returns the earliest time one of them wakes.
  TimeNs WaitForSleepers(int count);
  // Earlier times than Now() are ignored.
  void AdvanceTo(TimeNs time_ns);

 private:
  std::mutex mu_;
  std::condition_variable advanced_;
  std::condition_variable slept_;
  TimeNs now_ns_ = 0;              // guarded by mu_
  std::multiset<TimeNs> wakeups_;  // guarded by mu_; one entry a sleeping thread
};

}  // namespace rserve::runtime

#endif  // RSERVE_SRC_RUNTIME_CLOCK_H_
