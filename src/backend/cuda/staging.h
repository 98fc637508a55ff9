// Small arrays that a launch reads: gathered in pinned memory, sent with one copy.

#ifndef RSERVE_SRC_BACKEND_CUDA_STAGING_H_
#define RSERVE_SRC_BACKEND_CUDA_STAGING_H_

#include <cstdint>
#include <cstring>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "src/backend/cuda/device.h"
#include "src/backend/cuda/queue.h"

namespace rserve::cuda {

class Staging {
 public:
  absl::Status Init(Device* device, int64_t bytes) {
    capacity_ = bytes;
    absl::StatusOr<Memory> host = Memory::Make(device, Memory::Kind::kPinned, bytes);
    if (!host.ok()) return host.status();
    host_ = *std::move(host);
    absl::StatusOr<Memory> memory = Memory::Make(device, Memory::Kind::kDevice, bytes);
    if (!memory.ok()) return memory.status();
    device_ = *std::move(memory);
    return absl::OkStatus();
  }

  // Nothing that was sent may still be read.
  void Clear() { used_ = 0; }

  // Where `values` will lie on the device. Null when there is no room: `Send` then fails.
  template <typename T>
  const T* Put(const std::vector<T>& values) {
    const auto bytes = static_cast<int64_t>(values.size() * sizeof(T));
    const int64_t at = used_;
    used_ += (bytes + 15) / 16 * 16;
    if (used_ > capacity_) return nullptr;
    if (bytes > 0) {
      std::memcpy(static_cast<uint8_t*>(host_.data()) + at, values.data(),
                  static_cast<size_t>(bytes));
    }
    return reinterpret_cast<const T*>(static_cast<const uint8_t*>(device_.data()) + at);
  }

  absl::Status Send(Queue* queue) {
    if (used_ > capacity_) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "a micro-batch's tables take ", used_, " bytes; the stage has room for ", capacity_));
    }
    queue->Copy(device_.data(), host_.data(), used_);
    return absl::OkStatus();
  }

 private:
  int64_t capacity_ = 0;
  int64_t used_ = 0;
  Memory host_;
  Memory device_;
};

}  // namespace rserve::cuda

#endif  // RSERVE_SRC_BACKEND_CUDA_STAGING_H_
