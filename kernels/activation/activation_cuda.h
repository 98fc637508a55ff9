// SwiGLU and GELU on a device: bf16 in and out, one rounding, f32 arithmetic in between.
//
// Elements do not meet, so there is no order to state. Launch: grid x is the row, grid y a piece of
// it; a thread takes 8 elements (1 where rows are not aligned), 256 threads a block, no shared
// memory, 2048 resident threads an SM. Bound by memory: SwiGLU moves 6 bytes an output, GELU 4.

#ifndef RSERVE_KERNELS_ACTIVATION_ACTIVATION_CUDA_H_
#define RSERVE_KERNELS_ACTIVATION_ACTIVATION_CUDA_H_

#include <cstdint>

#include "kernels/cuda/types.h"

namespace rserve::kernels::cuda {

// y = gate / (1 + e^-gate) * up. gate and up share a stride: they are halves of one product's rows.
struct SwiGluArgs {
  const Bf16* gate = nullptr;
  const Bf16* up = nullptr;
  int64_t stride = 0;  // elements between rows of gate, and of up
  Bf16* y = nullptr;
  int64_t y_stride = 0;
  int64_t rows = 0;
  int64_t width = 0;
};
Result SwiGlu(const SwiGluArgs& args, StreamRef stream);

// y = x * Phi(x), the erf form (cuBLASLt's GELU epilogue is the tanh form, which the reference's
// merger does not use).
struct GeluArgs {
  const Bf16* x = nullptr;
  int64_t x_stride = 0;
  Bf16* y = nullptr;  // may be x
  int64_t y_stride = 0;
  int64_t rows = 0;
  int64_t width = 0;
};
Result Gelu(const GeluArgs& args, StreamRef stream);

}  // namespace rserve::kernels::cuda

#endif  // RSERVE_KERNELS_ACTIVATION_ACTIVATION_CUDA_H_
