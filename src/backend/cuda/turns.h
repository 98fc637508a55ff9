// Turns: roles of one device that work one after another instead of side by side.

#ifndef RSERVE_SRC_BACKEND_CUDA_TURNS_H_
#define RSERVE_SRC_BACKEND_CUDA_TURNS_H_

#include <memory>
#include <mutex>
#include <utility>

#include "absl/status/statusor.h"
#include "src/backend/cuda/device.h"

namespace rserve::cuda {

// Shared by the roles of a device; each queues its pieces under a Turn. Thread-safe.
class Turns {
 public:
  static absl::StatusOr<std::shared_ptr<Turns>> Make(Device* device) {
    absl::StatusOr<EventRef> last = device->CreateEvent();
    if (!last.ok()) return last.status();
    return std::shared_ptr<Turns>(new Turns(device, *last));
  }
  ~Turns() { device_->DestroyEvent(last_); }
  Turns(const Turns&) = delete;
  Turns& operator=(const Turns&) = delete;

 private:
  friend class Turn;
  Turns(Device* device, EventRef last) : device_(device), last_(last) {}

  Device* const device_;
  const EventRef last_;  // the end of what was queued last
  std::mutex mutex_;     // held while a piece is queued
};

// While it lives, a piece is queued that begins when the piece before it has ended. `turns` null:
// nothing. A lost device shows in what is queued.
class Turn {
 public:
  Turn(Turns* turns, const Timeline& timeline) : turns_(turns), timeline_(timeline) {
    if (turns_ == nullptr) return;
    turns_->mutex_.lock();
    turns_->device_->WaitFor(turns_->last_, timeline_.stream()).IgnoreError();
  }
  ~Turn() {
    if (turns_ == nullptr) return;
    turns_->device_->Record(turns_->last_, timeline_.stream()).IgnoreError();
    turns_->mutex_.unlock();
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  Turns* const turns_;
  const Timeline& timeline_;
};

}  // namespace rserve::cuda

#endif  // RSERVE_SRC_BACKEND_CUDA_TURNS_H_
