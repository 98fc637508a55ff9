// Rotary position embedding of query and key heads, and the angles that it turns by.
//
// A head of width D is turned in D/2 pairs (d, d + D/2):
//   x[d] = x[d] cos - x[d + D/2] sin,   x[d + D/2] = x[d + D/2] cos + x[d] sin.
// Angles are position * inverse frequency in f32, as the reference computes them, and their cosine
// and sine come from the C library, one by one; a row's depend on its own position only.

#ifndef RSERVE_KERNELS_ROTARY_ROTARY_H_
#define RSERVE_KERNELS_ROTARY_ROTARY_H_

#include <cstdint>

#include "kernels/cpu/isa.h"

namespace rserve::kernels {

struct RotaryArgs {
  float* x = nullptr;    // turned in place; heads lie head_dim apart in a row
  int64_t x_stride = 0;  // floats between rows
  int64_t heads = 0;
  int64_t head_dim = 0;           // even
  const float* cosine = nullptr;  // [rows][head_dim / 2]
  const float* sine = nullptr;
};

// Turns all heads of rows [row_begin, row_end).
void Rotary(const KernelTable& isa, const RotaryArgs& args, int64_t row_begin, int64_t row_end);

// inverse[i] = 1 / base^(2 i / width) for i < width / 2 (rounded up).
void InverseFrequencies(double base, int64_t width, float* inverse);

// One row's angles of M-RoPE: pair i belongs to the axis whose section it lies in, with
// `sections` pairs an axis, repeating axes temporal, height, width. positions[axis]; out: `pairs`.
void MropeAngles(const int32_t positions[3], const int32_t* sections, int num_sections,
                 const float* inverse, int64_t pairs, float* cosine, float* sine);

// One patch's angles in the vision tower: the first half of the pairs turn with the patch's row,
// the second half with its column. inverse: [pairs / 2].
void VisionAngles(int32_t row, int32_t column, const float* inverse, int64_t pairs, float* cosine,
                  float* sine);

}  // namespace rserve::kernels

#endif  // RSERVE_KERNELS_ROTARY_ROTARY_H_
