// Cutting one allocation into arrays. The same layout function counts (over no memory) and cuts.

#ifndef RSERVE_SRC_BACKEND_CUDA_CARVER_H_
#define RSERVE_SRC_BACKEND_CUDA_CARVER_H_

#include <cstdint>

namespace rserve::cuda {

class Carver {
 public:
  explicit Carver(void* base) : base_(static_cast<uint8_t*>(base)) {}

  // `count` elements at a multiple of 256 bytes; null while counting.
  template <typename T>
  T* Take(int64_t count) {
    T* at = base_ == nullptr ? nullptr : reinterpret_cast<T*>(base_ + used_);
    used_ += (count * static_cast<int64_t>(sizeof(T)) + 255) / 256 * 256;
    return at;
  }
  int64_t bytes() const { return used_; }

 private:
  uint8_t* base_;
  int64_t used_ = 0;
};

}  // namespace rserve::cuda

#endif  // RSERVE_SRC_BACKEND_CUDA_CARVER_H_
