#include "capi/engine_handle.h"

#include <unistd.h>

namespace rserve::capi {

bool CallGate::Enter() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (closed_) return false;
  ++inside_;
  return true;
}

void CallGate::Leave() {
  std::lock_guard<std::mutex> lock(mutex_);
  // Under the lock: Close may destroy the gate as soon as it can take it.
  if (--inside_ == 0) empty_.notify_all();
}

void CallGate::Close() {
  std::unique_lock<std::mutex> lock(mutex_);
  closed_ = true;
  while (inside_ != 0) empty_.wait(lock);
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
