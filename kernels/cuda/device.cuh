// What a kernel body is written against. The same source is compiled for a device by nvcc and for
// the host by the C++ compiler; every difference lies in the two files below, none in a kernel.
//
//   ThreadId() BlockThreads() Lane() Warp() BlockX() BlockY() BlockZ()    where this thread is
//   Shared()                        the block's dynamic shared memory (the only kind that is used)
//   SyncThreads() SyncWarp()        barriers; all threads of the block, or all lanes of the warp
//   ShuffleXor(v, mask) Shuffle(v, lane) Any(p)      warp collectives, always of all 32 lanes
//   LoadMatrix4[Transposed] MmaBf16                  tensor-core tiles, PTX's register layout
//   CopyAsync16 CopyAsyncCommit CopyAsyncWait<N>     cp.async of 16 bytes
//   Load16 Store16 ToFloat ToBf16 Pack StorePair     memory and bf16
//   Exp2 Exp Rsqrt Log Erf SinCos FusedMultiplyAdd   f32 functions
//   RSERVE_UNROLL                                    before a loop that must be unrolled
//
// Blocks are one-dimensional and a multiple of 32 threads.

#ifndef RSERVE_KERNELS_CUDA_DEVICE_CUH_
#define RSERVE_KERNELS_CUDA_DEVICE_CUH_

#include "kernels/cuda/types.h"

#if defined(__CUDACC__)
#include "kernels/cuda/device_gpu.cuh"
#else
#include "kernels/cuda/device_host.h"
#endif

namespace rserve::kernels::cuda {

inline constexpr int kWarp = 32;

// Sums and maxima over the warp by a fixed tree; every lane gets the result.
__device__ inline float WarpSum(float v) {
  RSERVE_UNROLL
  for (int mask = kWarp / 2; mask > 0; mask /= 2) v += ShuffleXor(v, mask);
  return v;
}

__device__ inline float WarpMax(float v) {
  RSERVE_UNROLL
  for (int mask = kWarp / 2; mask > 0; mask /= 2) {
    const float other = ShuffleXor(v, mask);
    v = other > v ? other : v;
  }
  return v;
}

// Sum over the block in a fixed order: lanes by WarpSum, then the warps one after another. `parts`:
// one float a warp in shared memory; free again after the next barrier.
__device__ inline float BlockSum(float v, float* parts) {
  v = WarpSum(v);
  if (Lane() == 0) parts[Warp()] = v;
  SyncThreads();
  float sum = 0.0f;
  for (int w = 0; w < BlockThreads() / kWarp; ++w) sum += parts[w];
  return sum;
}

}  // namespace rserve::kernels::cuda

#endif  // RSERVE_KERNELS_CUDA_DEVICE_CUH_
