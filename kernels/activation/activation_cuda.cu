#include "kernels/activation/activation_cuda.h"
#include "kernels/activation/activation_kernel.cuh"
#include "kernels/cuda/row_launch.cuh"

namespace rserve::kernels::cuda {

Result SwiGlu(const SwiGluArgs& args, StreamRef stream) {
  if (args.rows < 0 || args.width < 0) return Invalid("SwiGLU: rows < 0 or width < 0");
  if (args.width % 8 == 0 && Aligned16(args.gate, args.stride) && Aligned16(args.up, args.stride) &&
      Aligned16(args.y, args.y_stride)) {
    return Launch<SwiGluKernel<8>>(RowShape(args.rows, args.width / 8, kActivationThreads), stream,
                                   args);
  }
  return Launch<SwiGluKernel<1>>(RowShape(args.rows, args.width, kActivationThreads), stream, args);
}

Result Gelu(const GeluArgs& args, StreamRef stream) {
  if (args.rows < 0 || args.width < 0) return Invalid("GELU: rows < 0 or width < 0");
  if (args.width % 8 == 0 && Aligned16(args.x, args.x_stride) && Aligned16(args.y, args.y_stride)) {
    return Launch<GeluKernel<8>>(RowShape(args.rows, args.width / 8, kActivationThreads), stream,
                                 args);
  }
  return Launch<GeluKernel<1>>(RowShape(args.rows, args.width, kActivationThreads), stream, args);
}

}  // namespace rserve::kernels::cuda
