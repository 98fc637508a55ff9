#include "capi/engine_handle.h"

#include <unistd.h>

namespace rserve::capi {

bool CallGate::Enter() {
  absl::MutexLock lock(&mutex_);
  if (closed_) return false;
  ++inside_;
  return true;
}

void CallGate::Leave() {
  absl::MutexLock lock(&mutex_);
  --inside_;
}

void CallGate::Close() {
  absl::MutexLock lock(&mutex_);
  closed_ = true;
  mutex_.Await(absl::Condition(this, &CallGate::Empty));
}

absl::Status Enter(const rserve_engine* handle) {
  if (absl::Status status = CheckNotNull(handle, "engine"); !status.ok()) return status;
  if (handle->owner != getpid()) {
    return absl::FailedPreconditionError("the engine belongs to the parent process of this fork");
  }
  if (!handle->gate.Enter()) return absl::FailedPreconditionError("the engine is being destroyed");
  return absl::OkStatus();
}

}  // namespace rserve::capi
