// Rotary position embedding on a device: the angles of a batch once, then queries and keys of every
// layer turned by them. Formulas as in rotary.h; x in bf16, turned in f32 and rounded once.
//
// No sums, so no order. Launch: grid x is the row, grid y a piece of it; Angles one pair a thread,
// Rotary 8 pairs (1 where heads are not aligned); 128 threads a block, no shared memory; at 32
// registers a thread at most, 16 blocks fill an SM's 2048 threads.
// Angles runs once a batch and calls the exact sine, whose way through large arguments is long;
// the layers read a table instead: 8 bytes a pair, little beside the rows that they turn.

#ifndef RSERVE_KERNELS_ROTARY_ROTARY_CUDA_H_
#define RSERVE_KERNELS_ROTARY_ROTARY_CUDA_H_

#include <cstdint>

#include "kernels/cuda/types.h"

namespace rserve::kernels::cuda {

// angle(row, i) = positions[axis[i]][row] * inverse[i]; out: cosine and sine. M-RoPE gives the axes
// temporal, height, width; the vision tower row and column.
struct AnglesArgs {
  const int32_t* positions = nullptr;  // [axes][position_stride]
  int64_t position_stride = 0;
  const int32_t* axis = nullptr;   // [pairs]
  const float* inverse = nullptr;  // [pairs]
  float* cosine = nullptr;         // [rows][pairs]
  float* sine = nullptr;
  int64_t rows = 0;
  int64_t pairs = 0;
};
Result Angles(const AnglesArgs& args, StreamRef stream);

struct RotaryArgs {
  Bf16* x = nullptr;              // turned in place
  int64_t x_stride = 0;           // elements between rows
  int64_t heads = 0;              // heads of a row
  int64_t head_stride = 0;        // elements between heads
  int64_t head_dim = 0;           // even
  const float* cosine = nullptr;  // [rows][head_dim / 2]
  const float* sine = nullptr;
  int64_t rows = 0;
};
Result Rotary(const RotaryArgs& args, StreamRef stream);

}  // namespace rserve::kernels::cuda

#endif  // RSERVE_KERNELS_ROTARY_ROTARY_CUDA_H_
