// Rotary embedding; see rotary_cuda.h.

#ifndef RSERVE_KERNELS_ROTARY_ROTARY_KERNEL_CUH_
#define RSERVE_KERNELS_ROTARY_ROTARY_KERNEL_CUH_

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/vector.cuh"
#include "kernels/rotary/rotary_cuda.h"

namespace rserve::kernels::cuda {

inline constexpr int kRotaryThreads = 128;

__global__ void __launch_bounds__(kRotaryThreads) AnglesKernel(const AnglesArgs args) {
  const int64_t row = BlockX();
  const int64_t pair = BlockY() * BlockThreads() + ThreadId();
  if (pair >= args.pairs) return;
  const int32_t position = args.positions[args.axis[pair] * args.position_stride + row];
  const float angle = static_cast<float>(position) * args.inverse[pair];
  SinCos(angle, args.sine + row * args.pairs + pair, args.cosine + row * args.pairs + pair);
}

template <int kVector>
__global__ void __launch_bounds__(kRotaryThreads) RotaryKernel(const RotaryArgs args) {
  const int64_t row = BlockX();
  const int64_t item = BlockY() * BlockThreads() + ThreadId();
  const int64_t half = args.head_dim / 2;
  const auto vectors = static_cast<int32_t>(half / kVector);
  if (item >= args.heads * vectors) return;
  const int32_t head = static_cast<int32_t>(item) / vectors;
  const int64_t at = int64_t{static_cast<int32_t>(item) % vectors} * kVector;
  Bf16* low = args.x + row * args.x_stride + head * args.head_stride + at;
  Bf16* high = low + half;
  float a[kVector], b[kVector];
  LoadVector<kVector>(low, a);
  LoadVector<kVector>(high, b);
  RSERVE_UNROLL
  for (int i = 0; i < kVector; ++i) {
    const float c = args.cosine[row * half + at + i];
    const float s = args.sine[row * half + at + i];
    const float turned = a[i] * c - b[i] * s;
    b[i] = b[i] * c + a[i] * s;
    a[i] = turned;
  }
  StoreVector<kVector>(low, a);
  StoreVector<kVector>(high, b);
}

}  // namespace rserve::kernels::cuda

#endif  // RSERVE_KERNELS_ROTARY_ROTARY_KERNEL_CUH_
