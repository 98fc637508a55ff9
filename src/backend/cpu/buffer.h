// Aligned storage: weights, caches and the growing scratch of a backend.

#ifndef RSERVE_SRC_BACKEND_CPU_BUFFER_H_
#define RSERVE_SRC_BACKEND_CPU_BUFFER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

namespace rserve::cpu {

// Frees what was allocated at a multiple of `alignment`.
struct AlignedFree {
  std::align_val_t alignment{64};
  void operator()(uint8_t* p) const { ::operator delete[](p, alignment); }
};

// Uninitialised bytes at a multiple of 64. Large ones are asked for in large pages, which the
// system grants where it can: a matrix is read from end to end again and again, and small pages
// would cost a walk through the page tables each.
class AlignedBytes {
 public:
  AlignedBytes() = default;
  explicit AlignedBytes(int64_t bytes);

  uint8_t* data() { return data_.get(); }
  const uint8_t* data() const { return data_.get(); }
  int64_t bytes() const { return bytes_; }

 private:
  std::unique_ptr<uint8_t[], AlignedFree> data_;
  int64_t bytes_ = 0;
};

// Scratch that grows to the largest size asked for and stays. Contents are lost on growth.
class FloatBuffer {
 public:
  float* Reserve(int64_t floats) {
    const int64_t bytes = floats * int64_t{sizeof(float)};
    if (bytes > storage_.bytes()) storage_ = AlignedBytes(bytes);
    return reinterpret_cast<float*>(storage_.data());
  }

 private:
  AlignedBytes storage_;
};

}  // namespace rserve::cpu

#endif  // RSERVE_SRC_BACKEND_CPU_BUFFER_H_
