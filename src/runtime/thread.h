// Threads of the engine: named, with all signals blocked (they belong to the host), pinned on
// demand.

#ifndef RSERVE_SRC_RUNTIME_THREAD_H_
#define RSERVE_SRC_RUNTIME_THREAD_H_

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"

namespace rserve::runtime {

// Joined by its destructor. `body` must not throw.
class Thread {
 public:
  // `name` is cut to the 15 characters that Linux keeps. Throws std::system_error if the process
  // may have no more threads.
  Thread(std::string name, std::function<void()> body);
  ~Thread();
  Thread(Thread&&) = default;
  Thread& operator=(Thread&&) = delete;

 private:
  std::thread thread_;
};

// INVALID_ARGUMENT names the first core that no machine can have.
absl::Status ValidateCores(const std::vector<int>& cores);

// Binds the calling thread to these cores. Fails where the process is not allowed to use any of
// them.
absl::Status PinThisThread(const std::vector<int>& cores);

}  // namespace rserve::runtime

#endif  // RSERVE_SRC_RUNTIME_THREAD_H_
