// What an rserve_engine is, and how calls enter it.

#ifndef RSERVE_CAPI_ENGINE_HANDLE_H_
#define RSERVE_CAPI_ENGINE_HANDLE_H_

#include <sys/types.h>
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "capi/callbacks.h"
#include "capi/completion_table.h"
#include "capi/guard.h"
#include "rserve/cc/model_engine.h"
#include "src/runtime/host/host_engine.h"

namespace rserve::capi {

// Counts the calls inside an engine, so that destroy can wait for them.
class CallGate {
 public:
  // False once Close has begun.
  bool Enter() ABSL_LOCKS_EXCLUDED(mutex_);
  void Leave() ABSL_LOCKS_EXCLUDED(mutex_);
  // Refuses calls from now on and waits for those inside.
  void Close() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  std::mutex mutex_;
  std::condition_variable empty_;
  int inside_ ABSL_GUARDED_BY(mutex_) = 0;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

// Events that one step of a poll takes: the scratch never grows, so a poll cannot lose events for
// want of memory.
inline constexpr int64_t kPollStep = 64;

}  // namespace rserve::capi

struct rserve_engine {
  const pid_t owner;  // an engine's threads do not follow a fork
  rserve::capi::LogCallback log;
  // One of the two; ends before the log it writes to.
  std::unique_ptr<rserve::ModelEngine> model;
  std::unique_ptr<rserve::runtime::HostEngine> host;
  std::shared_ptr<rserve::capi::CompletionTable> completions;  // of `host`
  mutable rserve::capi::CallGate gate;
  std::atomic<bool> polling = false;
  std::vector<rserve::Event> events;  // scratch of poll
};

namespace rserve::capi {

// FAILED_PRECONDITION when a call may not enter: in a forked child, or after destroy has begun.
absl::Status Enter(const rserve_engine* handle);

// An entry point on any engine: Guard, with the engine held open during `body(engine)`, which is
// given a ModelEngine& or a HostEngine&.
template <typename Handle, typename Body>
rserve_status_t WithEngine(Handle* handle, rserve_error** err, Body&& body) noexcept {
  return Guard(err, [&]() -> absl::Status {
    if (absl::Status status = Enter(handle); !status.ok()) return status;
    struct Leave {
      const rserve_engine* handle;
      ~Leave() { handle->gate.Leave(); }
    } leave{handle};
    if (handle->model != nullptr) return body(*handle->model);
    return body(*handle->host);
  });
}

// The same for calls that need a checkpoint: `body(ModelEngine&)`.
template <typename Handle, typename Body>
rserve_status_t WithModel(Handle* handle, rserve_error** err, Body&& body) noexcept {
  return WithEngine(handle, err, [&](auto& engine) -> absl::Status {
    if constexpr (std::is_same_v<decltype(engine), ModelEngine&>) {
      return body(engine);
    } else {
      return absl::FailedPreconditionError(
          "the engine runs the host's own executor; this call needs one made from a checkpoint");
    }
  });
}

}  // namespace rserve::capi

#endif  // RSERVE_CAPI_ENGINE_HANDLE_H_
