#include "kernels/convert/convert_cuda.h"
#include "kernels/convert/convert_kernel.cuh"
#include "kernels/cuda/row_launch.cuh"

namespace rserve::kernels::cuda {

Result RowsToBf16(const ToBf16Args& given, StreamRef stream) {
  ToBf16Args args = given;
  if (args.padded_width == 0) args.padded_width = args.width;
  if (args.rows < 0 || args.width < 0 || args.padded_width < args.width) {
    return Invalid("to bf16: rows < 0, width < 0 or padded_width < width");
  }
  if (args.width % 8 == 0 && args.padded_width % 8 == 0 && Aligned16(args.x, args.x_stride) &&
      Aligned16(args.y, args.y_stride)) {
    return Launch<ToBf16Kernel<8>>(RowShape(args.rows, args.padded_width / 8, kConvertThreads),
                                   stream, args);
  }
  return Launch<ToBf16Kernel<1>>(RowShape(args.rows, args.padded_width, kConvertThreads), stream,
                                 args);
}

Result RowsToF32(const ToF32Args& args, StreamRef stream) {
  if (args.rows < 0 || args.width < 0) return Invalid("to f32: rows < 0 or width < 0");
  if (args.width % 8 == 0 && Aligned16(args.x, args.x_stride) && Aligned16(args.y, args.y_stride)) {
    return Launch<ToF32Kernel<8>>(RowShape(args.rows, args.width / 8, kConvertThreads), stream,
                                  args);
  }
  return Launch<ToF32Kernel<1>>(RowShape(args.rows, args.width, kConvertThreads), stream, args);
}

}  // namespace rserve::kernels::cuda
