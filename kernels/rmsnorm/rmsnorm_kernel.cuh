// RMSNorm of one row a block; see rmsnorm_cuda.h.

#ifndef RSERVE_KERNELS_RMSNORM_RMSNORM_KERNEL_CUH_
#define RSERVE_KERNELS_RMSNORM_RMSNORM_KERNEL_CUH_

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/vector.cuh"
#include "kernels/rmsnorm/rmsnorm_cuda.h"

namespace rserve::kernels::cuda {

inline constexpr int kRmsNormThreads = 256;

// kPasses: how many vectors of kVector elements a thread holds.
template <int kVector, int kPasses>
__global__ void __launch_bounds__(kRmsNormThreads) RmsNormKernel(const RmsNormArgs args) {
  const int64_t row = BlockX();
  const Bf16* x = args.x + row * args.x_stride;
  Bf16* y = args.y + row * args.y_stride;
  float values[kPasses][kVector] = {};
  float squares = 0.0f;
  RSERVE_UNROLL
  for (int pass = 0; pass < kPasses; ++pass) {
    const int64_t at = (int64_t{pass} * BlockThreads() + ThreadId()) * kVector;
    if (at < args.width) {
      LoadVector<kVector>(x + at, values[pass]);
      if (args.delta != nullptr) {
        float delta[kVector];
        LoadVector<kVector>(args.delta + row * args.delta_stride + at, delta);
        RSERVE_UNROLL
        for (int i = 0; i < kVector; ++i) {
          values[pass][i] = ToFloat(ToBf16(values[pass][i] + delta[i]));
        }
        StoreVector<kVector>(args.sum + row * args.sum_stride + at, values[pass]);
      }
      RSERVE_UNROLL
      for (int i = 0; i < kVector; ++i) squares += values[pass][i] * values[pass][i];
    }
  }
  const float mean =
      BlockSum(squares, reinterpret_cast<float*>(Shared())) / static_cast<float>(args.width);
  const float inverse = Rsqrt(mean + args.eps);
  RSERVE_UNROLL
  for (int pass = 0; pass < kPasses; ++pass) {
    const int64_t at = (int64_t{pass} * BlockThreads() + ThreadId()) * kVector;
    if (at < args.width) {
      float weight[kVector];
      LoadVector<kVector>(args.weight + at, weight);
      RSERVE_UNROLL
      for (int i = 0; i < kVector; ++i) values[pass][i] = weight[i] * (values[pass][i] * inverse);
      StoreVector<kVector>(y + at, values[pass]);
    }
  }
  for (int64_t at = args.width + ThreadId(); at < args.padded_width; at += BlockThreads()) {
    y[at] = ToBf16(0.0f);
  }
}

}  // namespace rserve::kernels::cuda

#endif  // RSERVE_KERNELS_RMSNORM_RMSNORM_KERNEL_CUH_
