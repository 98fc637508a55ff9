// Aligned storage: weights, caches and the growing scratch of a backend.

#ifndef RSERVE_SRC_BACKEND_CPU_BUFFER_H_
#define RSERVE_SRC_BACKEND_CPU_BUFFER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

namespace rserve::cpu {

// Uninitialised bytes at a multiple of 64.
class AlignedBytes {
 public:
  AlignedBytes() = default;
  explicit AlignedBytes(int64_t bytes)
      : data_(new (std::align_val_t{64}) uint8_t[static_cast<size_t>(bytes)]), bytes_(bytes) {}

  uint8_t* data() { return data_.get(); }
  const uint8_t* data() const { return data_.get(); }
  int64_t bytes() const { return bytes_; }

 private:
  struct Free {
    void operator()(uint8_t* p) const { ::operator delete[](p, std::align_val_t{64}); }
  };
  std::unique_ptr<uint8_t[], Free> data_;
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
