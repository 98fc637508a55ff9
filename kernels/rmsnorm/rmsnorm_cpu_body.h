// RMSNorm for one instruction set.

#ifndef RSERVE_KERNELS_RMSNORM_RMSNORM_CPU_BODY_H_
#define RSERVE_KERNELS_RMSNORM_RMSNORM_CPU_BODY_H_

#include "kernels/cpu/simd.h"
#include "kernels/rmsnorm/rmsnorm.h"

namespace rserve::kernels::RSERVE_ISA {

inline void RmsNorm(const RmsNormArgs& args, int64_t row_begin, int64_t row_end) {
  for (int64_t row = row_begin; row < row_end; ++row) {
    const float* x = args.x + row * args.x_stride;
    float* y = args.y + row * args.y_stride;
    Sum16 sum;
    int64_t j = 0;
    for (; j + 16 <= args.width; j += 16) {
      for (int i = 0; i < Sum16::kParts; ++i) {
        const V v = Load(x + j + i * kLanes);
        sum.part[i] = Fma(v, v, sum.part[i]);
      }
    }
    if (j < args.width) {
      float tail[16] = {};
      for (int64_t i = j; i < args.width; ++i) tail[i - j] = x[i];
      for (int i = 0; i < Sum16::kParts; ++i) {
        const V v = Load(tail + i * kLanes);
        sum.part[i] = Fma(v, v, sum.part[i]);
      }
    }
    const float mean = sum.Total() / static_cast<float>(args.width);
    const float inverse = 1.0f / __builtin_sqrtf(mean + args.eps);
    for (j = 0; j + kLanes <= args.width; j += kLanes) {
      Store(y + j, Load(args.weight + j) * (Load(x + j) * inverse));
    }
    for (; j < args.width; ++j) y[j] = args.weight[j] * (x[j] * inverse);
  }
}

}  // namespace rserve::kernels::RSERVE_ISA

#endif  // RSERVE_KERNELS_RMSNORM_RMSNORM_CPU_BODY_H_
