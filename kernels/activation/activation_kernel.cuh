// SwiGLU and GELU; see activation_cuda.h.

#ifndef RSERVE_KERNELS_ACTIVATION_ACTIVATION_KERNEL_CUH_
#define RSERVE_KERNELS_ACTIVATION_ACTIVATION_KERNEL_CUH_

#include "kernels/activation/activation_cuda.h"
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/vector.cuh"

namespace rserve::kernels::cuda {

inline constexpr int kActivationThreads = 256;

template <int kVector>
__global__ void __launch_bounds__(kActivationThreads) SwiGluKernel(const SwiGluArgs args) {
  const int64_t row = BlockX();
  const int64_t at = (BlockY() * BlockThreads() + ThreadId()) * kVector;
  if (at >= args.width) return;
  float gate[kVector], up[kVector];
  LoadVector<kVector>(args.gate + row * args.stride + at, gate);
  LoadVector<kVector>(args.up + row * args.stride + at, up);
  RSERVE_UNROLL
  for (int i = 0; i < kVector; ++i) gate[i] = gate[i] / (1.0f + Exp(-gate[i])) * up[i];
  StoreVector<kVector>(args.y + row * args.y_stride + at, gate);
}

template <int kVector>
__global__ void __launch_bounds__(kActivationThreads) GeluKernel(const GeluArgs args) {
  const int64_t row = BlockX();
  const int64_t at = (BlockY() * BlockThreads() + ThreadId()) * kVector;
  if (at >= args.width) return;
  float x[kVector];
  LoadVector<kVector>(args.x + row * args.x_stride + at, x);
  RSERVE_UNROLL
  for (int i = 0; i < kVector; ++i) x[i] = 0.5f * x[i] * (1.0f + Erf(x[i] * 0.70710678f));
  StoreVector<kVector>(args.y + row * args.y_stride + at, x);
}

}  // namespace rserve::kernels::cuda

#endif  // RSERVE_KERNELS_ACTIVATION_ACTIVATION_KERNEL_CUH_
