// From the 8-bit pixels of a resized image to normalised patch rows in bf16.
//
// Element (c, t, y, x) of a row is pixel (y, x) of the patch in channel c, the same for every t (a
// still image is its own next frame): value(c, sample) = sample * scale[c] + shift[c] in f32, one
// fused multiply-add, rounded once. With scale = rescale / std and shift = -mean / std that is the
// processor's (sample * rescale - mean) / std within 2 units in the last place of f32, far below
// the rounding to bf16.
//
// Launch: grid x is the patch, grid y a piece of its row, one element of the first frame a thread,
// 128 threads a block; at 25 registers a thread at most, 16 blocks fill an SM's 2048 threads.
// Bound by memory: 1 byte read and 4 written an input sample (two frames).

#ifndef RSERVE_KERNELS_PATCHIFY_PATCHIFY_CUDA_H_
#define RSERVE_KERNELS_PATCHIFY_PATCHIFY_CUDA_H_

#include <cstdint>

#include "kernels/cuda/types.h"

namespace rserve::kernels::cuda {

inline constexpr int kPatchChannels = 3;

struct PatchifyArgs {
  const uint8_t* pixels = nullptr;  // [height][width][3], of the resized image
  int64_t row_bytes = 0;            // between pixel rows
  // [rows][2]: the row and column of the patch in its image, in patches.
  const int32_t* places = nullptr;
  int32_t patch_size = 0;
  int32_t frames = 0;  // temporal_patch_size
  float scale[kPatchChannels] = {};
  float shift[kPatchChannels] = {};
  Bf16* y = nullptr;  // [rows][3 * frames * patch_size^2], columns up to padded_width become 0
  int64_t y_stride = 0;
  int64_t padded_width = 0;  // 0: no padding
  int64_t rows = 0;
};
Result Patchify(const PatchifyArgs& args, StreamRef stream);

}  // namespace rserve::kernels::cuda

#endif  // RSERVE_KERNELS_PATCHIFY_PATCHIFY_CUDA_H_
