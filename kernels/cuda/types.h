// What the launchers of CUDA kernels share with their callers, in plain C++: no CUDA header here.

#ifndef RSERVE_KERNELS_CUDA_TYPES_H_
#define RSERVE_KERNELS_CUDA_TYPES_H_

#include <bit>
#include <cstdint>

namespace rserve::kernels::cuda {

// The upper half of an f32. Arithmetic is done in f32; a result is rounded once, to nearest even.
struct Bf16 {
  uint16_t bits = 0;
};

// Where a launch is queued: a cudaStream_t on a device, a host::Stream* under emulation. Null: the
// default stream, and immediate execution under emulation.
struct StreamRef {
  void* handle = nullptr;
};

// What came of a launch. Launchers do not wait, so only refused arguments and failed launches show
// here; what a kernel does wrong shows when its stream is asked.
struct Result {
  enum class Code : int32_t {
    kOk = 0,
    kInvalid = 1,      // `what` names the argument and its limit
    kUnsupported = 2,  // correct, but no kernel covers it
    kFailed = 3,       // the runtime refused the launch; `native` is its error number
  };
  Code code = Code::kOk;
  int32_t native = 0;
  const char* what = "";  // static storage

  bool ok() const { return code == Code::kOk; }
};

inline Result Invalid(const char* what) { return {Result::Code::kInvalid, 0, what}; }
inline Result Unsupported(const char* what) { return {Result::Code::kUnsupported, 0, what}; }

// Whether an array may be read 16 bytes at a time: its first element and the distance of its rows.
template <typename T>
bool Aligned16(const T* data, int64_t row_stride) {
  return std::bit_cast<uintptr_t>(data) % 16 == 0 &&
         row_stride * static_cast<int64_t>(sizeof(T)) % 16 == 0;
}

}  // namespace rserve::kernels::cuda

#endif  // RSERVE_KERNELS_CUDA_TYPES_H_
