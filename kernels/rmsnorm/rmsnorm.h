// y = weight * (x / sqrt(mean(x^2) + eps)), row by row, in f32.
//
// The squares of a row are summed in 16 lanes in column order and one fixed tree (Sum16 of
// kernels/cpu/simd.h), so a row's result depends on that row alone.

#ifndef RSERVE_KERNELS_RMSNORM_RMSNORM_H_
#define RSERVE_KERNELS_RMSNORM_RMSNORM_H_

#include <cstdint>

#include "kernels/cpu/isa.h"

namespace rserve::kernels {

struct RmsNormArgs {
  const float* x = nullptr;
  int64_t x_stride = 0;           // floats between rows
  const float* weight = nullptr;  // [width]
  float eps = 1e-6f;
  int64_t width = 0;   // > 0
  float* y = nullptr;  // may be x
  int64_t y_stride = 0;
};

// Rows [row_begin, row_end).
void RmsNorm(const KernelTable& isa, const RmsNormArgs& args, int64_t row_begin, int64_t row_end);

}  // namespace rserve::kernels

#endif  // RSERVE_KERNELS_RMSNORM_RMSNORM_H_
