// The launch shape of kernels that take a row each on grid x and its vectors on grid y.

#ifndef RSERVE_KERNELS_CUDA_ROW_LAUNCH_CUH_
#define RSERVE_KERNELS_CUDA_ROW_LAUNCH_CUH_

#include "kernels/cuda/launch.cuh"

namespace rserve::kernels::cuda {

// `items` a row, one a thread; short rows get blocks as small as they are.
inline LaunchShape RowShape(int64_t rows, int64_t items, int max_threads) {
  LaunchShape shape;
  shape.grid_x = rows;
  const int64_t rounded = (items + kWarp - 1) / kWarp * kWarp;
  shape.threads = static_cast<int>(rounded < max_threads ? rounded : max_threads);
  shape.grid_y = shape.threads == 0 ? 0 : (items + shape.threads - 1) / shape.threads;
  return shape;
}

}  // namespace rserve::kernels::cuda

#endif  // RSERVE_KERNELS_CUDA_ROW_LAUNCH_CUH_
