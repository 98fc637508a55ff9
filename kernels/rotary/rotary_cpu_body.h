// Rotary embedding for one instruction set.

#ifndef RSERVE_KERNELS_ROTARY_ROTARY_CPU_BODY_H_
#define RSERVE_KERNELS_ROTARY_ROTARY_CPU_BODY_H_

#include "kernels/cpu/simd.h"
#include "kernels/rotary/rotary.h"

namespace rserve::kernels::RSERVE_ISA {

inline void Rotary(const RotaryArgs& args, int64_t row_begin, int64_t row_end) {
  const int64_t half = args.head_dim / 2;
  for (int64_t row = row_begin; row < row_end; ++row) {
    const float* cosine = args.cosine + row * half;
    const float* sine = args.sine + row * half;
    for (int64_t head = 0; head < args.heads; ++head) {
      float* low = args.x + row * args.x_stride + head * args.head_dim;
      float* high = low + half;
      int64_t i = 0;
      for (; i + kLanes <= half; i += kLanes) {
        const V a = Load(low + i), b = Load(high + i);
        const V c = Load(cosine + i), s = Load(sine + i);
        Store(low + i, a * c - b * s);
        Store(high + i, b * c + a * s);
      }
      for (; i < half; ++i) {
        const float a = low[i], b = high[i];
        low[i] = a * cosine[i] - b * sine[i];
        high[i] = b * cosine[i] + a * sine[i];
      }
    }
  }
}

}  // namespace rserve::kernels::RSERVE_ISA

#endif  // RSERVE_KERNELS_ROTARY_ROTARY_CPU_BODY_H_
