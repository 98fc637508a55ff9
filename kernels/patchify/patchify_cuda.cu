#include "kernels/cuda/row_launch.cuh"
#include "kernels/patchify/patchify_cuda.h"
#include "kernels/patchify/patchify_kernel.cuh"

namespace rserve::kernels::cuda {

Result Patchify(const PatchifyArgs& args, StreamRef stream) {
  if (args.rows < 0 || args.patch_size < 1 || args.patch_size > 1024 || args.frames < 1) {
    return Invalid("patchify: rows < 0, patch_size outside 1 .. 1024 or frames < 1");
  }
  const int64_t samples = int64_t{kPatchChannels} * args.patch_size * args.patch_size;
  const int64_t width = samples * args.frames;
  const int64_t padding = args.padded_width > width ? args.padded_width - width : 0;
  return Launch<PatchifyKernel>(RowShape(args.rows, samples + padding, kPatchifyThreads), stream,
                                args);
}

}  // namespace rserve::kernels::cuda
