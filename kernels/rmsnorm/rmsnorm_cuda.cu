#include "kernels/cuda/launch.cuh"
#include "kernels/rmsnorm/rmsnorm_cuda.h"
#include "kernels/rmsnorm/rmsnorm_kernel.cuh"

namespace rserve::kernels::cuda {

namespace {

template <int kVector>
Result LaunchFor(const RmsNormArgs& args, StreamRef stream) {
  const int64_t vectors = (args.width + kVector - 1) / kVector;
  int64_t threads = (vectors + kWarp - 1) / kWarp * kWarp;
  threads = threads < kRmsNormThreads ? threads : kRmsNormThreads;
  const int64_t passes = (vectors + threads - 1) / threads;
  LaunchShape shape;
  shape.grid_x = args.rows;
  shape.threads = static_cast<int>(threads);
  shape.shared_bytes = static_cast<int>(threads / kWarp * 4);
  if (passes == 1) return Launch<RmsNormKernel<kVector, 1>>(shape, stream, args);
  if (passes == 2) return Launch<RmsNormKernel<kVector, 2>>(shape, stream, args);
  if (passes <= 4) return Launch<RmsNormKernel<kVector, 4>>(shape, stream, args);
  if constexpr (kVector == 1) {
    if (passes <= 8) return Launch<RmsNormKernel<kVector, 8>>(shape, stream, args);
    return Unsupported("RMSNorm: width is above 2048 and the rows are not 16-byte aligned");
  } else {
    return Unsupported("RMSNorm: width is above 8192");
  }
}

}  // namespace

Result RmsNorm(const RmsNormArgs& args, StreamRef stream) {
  if (args.rows < 0 || args.width < 1) return Invalid("RMSNorm: rows < 0 or width < 1");
  if (args.delta != nullptr && args.sum == nullptr) {
    return Invalid("RMSNorm: a delta and no place for the sum");
  }
  const bool aligned = args.width % 8 == 0 && Aligned16(args.x, args.x_stride) &&
                       Aligned16(args.delta, args.delta_stride) &&
                       Aligned16(args.sum, args.sum_stride) && Aligned16(args.weight, 0) &&
                       Aligned16(args.y, args.y_stride);
  return aligned ? LaunchFor<8>(args, stream) : LaunchFor<1>(args, stream);
}

}  // namespace rserve::kernels::cuda
