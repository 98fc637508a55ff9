// Rows between f32 and bf16 buffers, with a permutation: patches into window order, embeddings back
// into the units' order, hidden states between stages.
//
// No sums. Launch: grid x is the row, grid y a piece of it; a thread converts 8 elements (1 where
// not aligned), 128 threads a block; at 24 registers a thread at most, 16 blocks fill an SM's 2048
// threads. Bound by memory: 6 bytes an element.

#ifndef RSERVE_KERNELS_CONVERT_CONVERT_CUDA_H_
#define RSERVE_KERNELS_CONVERT_CONVERT_CUDA_H_

#include <cstdint>

#include "kernels/cuda/types.h"

namespace rserve::kernels::cuda {

// y[r] = bf16(x[source(r)]), source(r) = rows_of_x[r], or r when there is no map.
struct ToBf16Args {
  const float* x = nullptr;
  int64_t x_stride = 0;
  const int32_t* rows_of_x = nullptr;
  Bf16* y = nullptr;
  int64_t y_stride = 0;
  int64_t rows = 0;
  int64_t width = 0;
  int64_t padded_width = 0;  // columns [width, padded_width) become 0; 0: width
};
Result RowsToBf16(const ToBf16Args& args, StreamRef stream);

// y[target(r)] = f32(x[r]), target(r) = rows_of_y[r], or r when there is no map.
struct ToF32Args {
  const Bf16* x = nullptr;
  int64_t x_stride = 0;
  const int32_t* rows_of_y = nullptr;
  float* y = nullptr;
  int64_t y_stride = 0;
  int64_t rows = 0;
  int64_t width = 0;
};
Result RowsToF32(const ToF32Args& args, StreamRef stream);

}  // namespace rserve::kernels::cuda

#endif  // RSERVE_KERNELS_CONVERT_CONVERT_CUDA_H_
