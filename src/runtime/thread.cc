#include "src/runtime/thread.h"

#include <pthread.h>
#include <sched.h>

#include <csignal>
#include <utility>

#include "absl/strings/str_cat.h"

namespace rserve::runtime {
namespace {

// A new thread inherits the mask of its creator, so there is no moment at which one of the host's
// signal handlers could run on it.
class AllSignalsBlocked {
 public:
  AllSignalsBlocked() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~AllSignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

}  // namespace

Thread::Thread(std::string name, std::function<void()> body) {
  AllSignalsBlocked blocked;
  thread_ = std::thread([name = name.substr(0, 15), body = std::move(body)] {
    ::pthread_setname_np(::pthread_self(), name.c_str());
    body();
  });
}

Thread::~Thread() {
  if (thread_.joinable()) thread_.join();
}

absl::Status ValidateCores(const std::vector<int>& cores) {
  for (int core : cores) {
    if (core < 0 || core >= CPU_SETSIZE) {
      return absl::InvalidArgumentError(
          absl::StrCat("worker_cores: core ", core, " is not in [0, ", CPU_SETSIZE, ")"));
    }
  }
  return absl::OkStatus();
}

absl::Status PinThisThread(const std::vector<int>& cores) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int core : cores) CPU_SET(core, &set);
  const int error = ::pthread_setaffinity_np(::pthread_self(), sizeof(set), &set);
  if (error != 0) return absl::ErrnoToStatus(error, "pthread_setaffinity_np");
  return absl::OkStatus();
}

}  // namespace rserve::runtime
