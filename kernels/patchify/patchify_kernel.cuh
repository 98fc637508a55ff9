// Patchify and normalise; see patchify_cuda.h.

#ifndef RSERVE_KERNELS_PATCHIFY_PATCHIFY_KERNEL_CUH_
#define RSERVE_KERNELS_PATCHIFY_PATCHIFY_KERNEL_CUH_

#include "kernels/cuda/device.cuh"
#include "kernels/patchify/patchify_cuda.h"

namespace rserve::kernels::cuda {

inline constexpr int kPatchifyThreads = 128;

__global__ void __launch_bounds__(kPatchifyThreads) PatchifyKernel(const PatchifyArgs args) {
  const int64_t row = BlockX();
  const auto item = static_cast<int32_t>(BlockY() * BlockThreads() + ThreadId());
  const int32_t size = args.patch_size;
  const int32_t plane = size * size;
  Bf16* y = args.y + row * args.y_stride;
  if (item < kPatchChannels * plane) {
    const int32_t c = item / plane, inside = item % plane;
    const int64_t py = int64_t{args.places[2 * row]} * size + inside / size;
    const int64_t px = int64_t{args.places[2 * row + 1]} * size + inside % size;
    const float sample = args.pixels[py * args.row_bytes + px * kPatchChannels + c];
    // Chosen, not indexed: an index would copy the parameters into local memory.
    const float scale = c == 0 ? args.scale[0] : (c == 1 ? args.scale[1] : args.scale[2]);
    const float shift = c == 0 ? args.shift[0] : (c == 1 ? args.shift[1] : args.shift[2]);
    const Bf16 value = ToBf16(FusedMultiplyAdd(sample, scale, shift));
    for (int32_t t = 0; t < args.frames; ++t) y[(c * args.frames + t) * plane + inside] = value;
  } else {
    const int64_t at =
        int64_t{kPatchChannels} * args.frames * plane + item - kPatchChannels * plane;
    if (at < args.padded_width) y[at] = ToBf16(0.0f);
  }
}

}  // namespace rserve::kernels::cuda

#endif  // RSERVE_KERNELS_PATCHIFY_PATCHIFY_KERNEL_CUH_
