// JobQueue: a blocking first-in first-out queue between the driver and the threads that work.

#ifndef RSERVE_SRC_RUNTIME_JOB_QUEUE_H_
#define RSERVE_SRC_RUNTIME_JOB_QUEUE_H_

#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

namespace rserve::runtime {

// [any-thread]
template <typename Job>
class JobQueue {
 public:
  void Push(Job job) {
    {
      std::lock_guard<std::mutex> lock(mu_);
      jobs_.push_back(std::move(job));
    }
    changed_.notify_one();
  }

  // Blocks for the next job; empty once the queue is closed and has no more.
  std::optional<Job> Pop() {
    std::unique_lock<std::mutex> lock(mu_);
    changed_.wait(lock, [&] { return closed_ || !jobs_.empty(); });
    if (jobs_.empty()) return std::nullopt;
    std::optional<Job> job(std::move(jobs_.front()));
    jobs_.pop_front();
    return job;
  }

  void Close() {
    {
      std::lock_guard<std::mutex> lock(mu_);
      closed_ = true;
    }
    changed_.notify_all();
  }

 private:
  std::mutex mu_;
  std::condition_variable changed_;
  std::deque<Job> jobs_;  // guarded by mu_
  bool closed_ = false;   // guarded by mu_
};

}  // namespace rserve::runtime

#endif  // RSERVE_SRC_RUNTIME_JOB_QUEUE_H_
