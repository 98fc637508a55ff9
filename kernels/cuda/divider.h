// Division by a number that is known at launch: one multiplication and a shift on the device.

#ifndef RSERVE_KERNELS_CUDA_DIVIDER_H_
#define RSERVE_KERNELS_CUDA_DIVIDER_H_

#include <cstdint>

namespace rserve::kernels::cuda {

// n / d == (n * multiplier) >> shift for 0 <= n < 2^31 and 1 <= d < 2^31: with 2^(s-1) < d <= 2^s,
// shift = 31 + s and multiplier = ceil(2^shift / d) <= 2^32 - 1 errs by less than n / 2^shift < 1/d
// (Granlund and Montgomery, Division by Invariant Integers using Multiplication, 1994).
struct Divider {
  uint32_t multiplier = uint32_t{1} << 31;
  int32_t shift = 31;
};

inline Divider MakeDivider(int32_t d) {
  Divider divider;
  int32_t s = 0;
  while ((int64_t{1} << s) < d) ++s;
  divider.shift = 31 + s;
  divider.multiplier = static_cast<uint32_t>(
      ((uint64_t{1} << divider.shift) + static_cast<uint64_t>(d) - 1) / static_cast<uint64_t>(d));
  return divider;
}

}  // namespace rserve::kernels::cuda

#endif  // RSERVE_KERNELS_CUDA_DIVIDER_H_
