#include "kernels/cuda/row_launch.cuh"
#include "kernels/rotary/rotary_cuda.h"
#include "kernels/rotary/rotary_kernel.cuh"

namespace rserve::kernels::cuda {

Result Angles(const AnglesArgs& args, StreamRef stream) {
  if (args.rows < 0 || args.pairs < 0) return Invalid("angles: rows < 0 or pairs < 0");
  return Launch<AnglesKernel>(RowShape(args.rows, args.pairs, kRotaryThreads), stream, args);
}

Result Rotary(const RotaryArgs& args, StreamRef stream) {
  if (args.rows < 0 || args.heads < 0) return Invalid("rotary: rows < 0 or heads < 0");
  if (args.head_dim < 2 || args.head_dim % 2 != 0) return Invalid("rotary: head_dim is not even");
  const int64_t half = args.head_dim / 2;
  if (args.heads * half >= int64_t{1} << 31) return Unsupported("rotary: a row of 2^31 pairs");
  if (half % 8 == 0 && args.head_stride % 8 == 0 && Aligned16(args.x, args.x_stride)) {
    return Launch<RotaryKernel<8>>(RowShape(args.rows, args.heads * half / 8, kRotaryThreads),
                                   stream, args);
  }
  return Launch<RotaryKernel<1>>(RowShape(args.rows, args.heads * half, kRotaryThreads), stream,
                                 args);
}

}  // namespace rserve::kernels::cuda
