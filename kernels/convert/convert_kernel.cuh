// Conversions between f32 and bf16 rows; see convert_cuda.h.

#ifndef RSERVE_KERNELS_CONVERT_CONVERT_KERNEL_CUH_
#define RSERVE_KERNELS_CONVERT_CONVERT_KERNEL_CUH_

#include "kernels/convert/convert_cuda.h"
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/vector.cuh"

namespace rserve::kernels::cuda {

inline constexpr int kConvertThreads = 128;

template <int kVector>
__global__ void __launch_bounds__(kConvertThreads) ToBf16Kernel(const ToBf16Args args) {
  const int64_t row = BlockX();
  const int64_t at = (BlockY() * BlockThreads() + ThreadId()) * kVector;
  if (at >= args.padded_width) return;
  const int64_t source = args.rows_of_x == nullptr ? row : args.rows_of_x[row];
  const float* x = args.x + source * args.x_stride + at;
  float values[kVector];
  if constexpr (kVector == 8) {
    // A vector lies inside the width or beyond it: both are multiples of 8.
    const bool inside = at < args.width;
    RSERVE_UNROLL
    for (int half = 0; half < 2; ++half) {
      const Words4 words = inside ? Load16(x + 4 * half) : Words4{{0, 0, 0, 0}};
      RSERVE_UNROLL
      for (int i = 0; i < 4; ++i) values[4 * half + i] = BitsToFloat(words.w[i]);
    }
  } else {
    values[0] = at < args.width ? x[0] : 0.0f;
  }
  StoreVector<kVector>(args.y + row * args.y_stride + at, values);
}

template <int kVector>
__global__ void __launch_bounds__(kConvertThreads) ToF32Kernel(const ToF32Args args) {
  const int64_t row = BlockX();
  const int64_t at = (BlockY() * BlockThreads() + ThreadId()) * kVector;
  if (at >= args.width) return;
  const int64_t target = args.rows_of_y == nullptr ? row : args.rows_of_y[row];
  float* y = args.y + target * args.y_stride + at;
  float values[kVector];
  LoadVector<kVector>(args.x + row * args.x_stride + at, values);
  RSERVE_UNROLL
  for (int i = 0; i < kVector; ++i) y[i] = values[i];
}

}  // namespace rserve::kernels::cuda

#endif  // RSERVE_KERNELS_CONVERT_CONVERT_KERNEL_CUH_
