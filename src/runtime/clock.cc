#include "src/runtime/clock.h"

#include <cerrno>
#include <ctime>

namespace rserve::runtime {
namespace {

constexpr TimeNs kNsPerSecond = 1'000'000'000;

}  // namespace

TimeNs MonotonicNow() {
  timespec now;
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<TimeNs>(now.tv_sec) * kNsPerSecond + now.tv_nsec;
}

void SystemClock::SleepUntil(TimeNs time_ns) {
  if (time_ns <= MonotonicNow()) return;
  timespec until;
  until.tv_sec = time_ns / kNsPerSecond;
  until.tv_nsec = time_ns % kNsPerSecond;
  while (::clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr) == EINTR) {
  }
}

TimeNs ManualClock::Now() {
  std::lock_guard<std::mutex> lock(mu_);
  return now_ns_;
}

void ManualClock::SleepUntil(TimeNs time_ns) {
  std::unique_lock<std::mutex> lock(mu_);
  if (time_ns <= now_ns_) return;
  wakeups_.insert(time_ns);
  slept_.notify_all();
  advanced_.wait(lock, [&] { return now_ns_ >= time_ns; });
}

TimeNs ManualClock::WaitForSleepers(int count) {
  std::unique_lock<std::mutex> lock(mu_);
  slept_.wait(lock, [&] { return static_cast<int>(wakeups_.size()) >= count; });
  return wakeups_.empty() ? now_ns_ : *wakeups_.begin();
}

void ManualClock::AdvanceTo(TimeNs time_ns) {
  std::lock_guard<std::mutex> lock(mu_);
  if (time_ns <= now_ns_) return;
  now_ns_ = time_ns;
  // A thread stops counting as asleep now and not when it gets to run, so that the next
  // WaitForSleepers waits for what it does next.
  wakeups_.erase(wakeups_.begin(), wakeups_.upper_bound(time_ns));
  advanced_.notify_all();
}

}  // namespace rserve::runtime
