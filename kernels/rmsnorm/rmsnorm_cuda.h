// RMSNorm on a device, with the residual sum in front of it:
//   s = x + delta (rounded to bf16),   y = weight * (s / sqrt(mean(s^2) + eps)),
// bf16 in and out, arithmetic in f32.
//
// Order of the sum: thread t takes vectors t, t + T, ... of 8 elements (1 where rows are not
// aligned) in that order; then the lanes of a warp by a tree, then the warps in order. T depends on
// the width and the alignment alone, so a row's result depends on that row alone.
//
// Launch: one block a row; T = width / vector rounded up to whole warps, at most 256; 4 bytes of
// shared memory a warp. Rows up to 8192 wide (2048 elements where not aligned) stay in registers
// between sum and scaling. At hidden sizes of 1280 (160 threads, 32 registers) 12 blocks an SM are
// resident, at 3584 (256 threads, 46 registers) 5: enough bytes in flight for a kernel that is
// bound by memory, 4 bytes an element, 8 with delta (docs/cuda-ptxas.txt).

#ifndef RSERVE_KERNELS_RMSNORM_RMSNORM_CUDA_H_
#define RSERVE_KERNELS_RMSNORM_RMSNORM_CUDA_H_

#include <cstdint>

#include "kernels/cuda/types.h"

namespace rserve::kernels::cuda {

struct RmsNormArgs {
  const Bf16* x = nullptr;      // [rows][width]
  int64_t x_stride = 0;         // elements between rows
  const Bf16* delta = nullptr;  // null: y is the norm of x
  int64_t delta_stride = 0;
  Bf16* sum = nullptr;  // gets s when there is a delta; may be x
  int64_t sum_stride = 0;
  const Bf16* weight = nullptr;  // [width]
  Bf16* y = nullptr;             // may be x, not sum
  int64_t y_stride = 0;
  int64_t rows = 0;
  int64_t width = 0;  // > 0
  // Columns [width, padded_width) of y become 0, for products that read them; 0: width.
  int64_t padded_width = 0;
  float eps = 1e-6f;
};

Result RmsNorm(const RmsNormArgs& args, StreamRef stream);

}  // namespace rserve::kernels::cuda

#endif  // RSERVE_KERNELS_RMSNORM_RMSNORM_CUDA_H_
