// A thread of a backend's: all signals blocked from its first instruction on, since signals belong
// to the host.

#ifndef RSERVE_SRC_BACKEND_PLAN_QUIET_THREAD_H_
#define RSERVE_SRC_BACKEND_PLAN_QUIET_THREAD_H_

#include <pthread.h>

#include <csignal>
#include <thread>
#include <utility>

namespace rserve::backend {

// A new thread inherits the mask of its creator.
template <typename Fn>
std::thread QuietThread(Fn body) {
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread(std::move(body));
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

}  // namespace rserve::backend

#endif  // RSERVE_SRC_BACKEND_PLAN_QUIET_THREAD_H_
