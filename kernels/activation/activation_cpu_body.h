// Elementwise functions for one instruction set.

#ifndef RSERVE_KERNELS_ACTIVATION_ACTIVATION_CPU_BODY_H_
#define RSERVE_KERNELS_ACTIVATION_ACTIVATION_CPU_BODY_H_

#include "kernels/activation/activation.h"
#include "kernels/cpu/simd.h"

namespace rserve::kernels::RSERVE_ISA {

template <V (*kFunction)(V)>
void Map(const float* x, int64_t count, float* y) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) Store(y + i, kFunction(Load(x + i)));
  if (i < count) StorePart(y + i, kFunction(LoadPart(x + i, count - i)), count - i);
}

}  // namespace rserve::kernels::RSERVE_ISA

#endif  // RSERVE_KERNELS_ACTIVATION_ACTIVATION_CPU_BODY_H_
