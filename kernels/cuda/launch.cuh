// How a launcher starts its kernel: on a stream of a device, or under emulation.

#ifndef RSERVE_KERNELS_CUDA_LAUNCH_CUH_
#define RSERVE_KERNELS_CUDA_LAUNCH_CUH_

#include "kernels/cuda/device.cuh"

#if !defined(__CUDACC__)
#include "kernels/cuda/host/stream.h"
#endif

namespace rserve::kernels::cuda {

struct LaunchShape {
  int64_t grid_x = 1;  // below 2^31
  int64_t grid_y = 1;  // below 65536
  int threads = 32;    // of a block; a multiple of 32
  int shared_bytes = 0;  // up to kMaxShared
};

// The shared memory that a kernel gets without asking for more.
inline constexpr int kSharedWithoutAsking = 48 * 1024;
// What a block may have when it asks, on every device from sm_80 on.
inline constexpr int kMaxShared = 99 * 1024;
inline constexpr int64_t kMaxGridX = (int64_t{1} << 31) - 1;
inline constexpr int64_t kMaxGridY = 65535;

// Queues kKernel(params). An empty grid is no launch. `params` is copied.
template <auto kKernel, typename Params>
Result Launch(const LaunchShape& shape, StreamRef stream, const Params& params) {
  if (shape.grid_x == 0 || shape.grid_y == 0) return {};
  if (shape.grid_x < 0 || shape.grid_x > kMaxGridX) return Unsupported("grid x beyond 2^31 - 1");
  if (shape.shared_bytes > kMaxShared) return Unsupported("shared memory beyond 99 KiB");
  if (shape.grid_y < 0 || shape.grid_y > kMaxGridY) return Unsupported("grid y beyond 65535");
#if defined(__CUDACC__)
  if (shape.shared_bytes > kSharedWithoutAsking) {
    const cudaError_t status = cudaFuncSetAttribute(
        kKernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shape.shared_bytes);
    if (status != cudaSuccess) {
      return {Result::Code::kFailed, static_cast<int32_t>(status), "shared memory of the kernel"};
    }
  }
  const dim3 grid(static_cast<unsigned>(shape.grid_x), static_cast<unsigned>(shape.grid_y));
  kKernel<<<grid, static_cast<unsigned>(shape.threads), static_cast<size_t>(shape.shared_bytes),
            static_cast<cudaStream_t>(stream.handle)>>>(params);
  const cudaError_t status = cudaGetLastError();
  if (status != cudaSuccess) {
    return {Result::Code::kFailed, static_cast<int32_t>(status), "kernel launch"};
  }
  return {};
#else
  return host::LaunchOn(stream, {shape.grid_x, shape.grid_y, 1}, shape.threads, shape.shared_bytes,
                        [params] { kKernel(params); });
#endif
}

}  // namespace rserve::kernels::cuda

#endif  // RSERVE_KERNELS_CUDA_LAUNCH_CUH_
