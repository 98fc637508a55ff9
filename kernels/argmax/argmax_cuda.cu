#include "kernels/argmax/argmax_cuda.h"
#include "kernels/argmax/argmax_kernel.cuh"
#include "kernels/cuda/launch.cuh"

namespace rserve::kernels::cuda {

Result ArgMax(const ArgMaxArgs& args, StreamRef stream) {
  if (args.rows < 0 || args.count < 0 || args.count >= int64_t{1} << 31) {
    return Invalid("argmax: rows < 0 or count outside 0 .. 2^31 - 1");
  }
  LaunchShape shape;
  shape.grid_x = args.rows;
  shape.threads = kArgMaxThreads;
  shape.shared_bytes = kArgMaxWarps * static_cast<int>(sizeof(Candidate));
  return Launch<ArgMaxKernel>(shape, stream, args);
}

}  // namespace rserve::kernels::cuda
