// Which pieces of work that were started have ended, and how.

#ifndef RSERVE_TESTS_BACKEND_CUDA_ENDS_H_
#define RSERVE_TESTS_BACKEND_CUDA_ENDS_H_

#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "src/backend/backend.h"

namespace rserve::testing {

// Thread-safe.
class Ends {
 public:
  backend::Done Of(int piece) {
    return [this, piece](absl::Status status) {
      std::lock_guard<std::mutex> lock(mutex_);
      order_.push_back(piece);
      statuses_.push_back(std::move(status));
      changed_.notify_all();
    };
  }
  void WaitFor(size_t count) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return order_.size() >= count; });
  }
  std::vector<int> order() {
    std::lock_guard<std::mutex> lock(mutex_);
    return order_;
  }
  std::vector<absl::Status> statuses() {
    std::lock_guard<std::mutex> lock(mutex_);
    return statuses_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<int> order_;
  std::vector<absl::Status> statuses_;
};

}  // namespace rserve::testing

#endif  // RSERVE_TESTS_BACKEND_CUDA_ENDS_H_
