// The vocabulary of device.cuh on a device, sm_80 and later.

#ifndef RSERVE_KERNELS_CUDA_DEVICE_GPU_CUH_
#define RSERVE_KERNELS_CUDA_DEVICE_GPU_CUH_

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include "kernels/cuda/types.h"

#define RSERVE_UNROLL _Pragma("unroll")

namespace rserve::kernels::cuda {

inline constexpr unsigned kAllLanes = 0xffffffffu;

__device__ inline int ThreadId() { return static_cast<int>(threadIdx.x); }
__device__ inline int BlockThreads() { return static_cast<int>(blockDim.x); }
__device__ inline int Lane() { return static_cast<int>(threadIdx.x & 31u); }
__device__ inline int Warp() { return static_cast<int>(threadIdx.x >> 5); }
__device__ inline int64_t BlockX() { return blockIdx.x; }
__device__ inline int64_t BlockY() { return blockIdx.y; }
__device__ inline int64_t BlockZ() { return blockIdx.z; }

__device__ inline unsigned char* Shared() {
  extern __shared__ __align__(128) unsigned char rserve_shared[];
  return rserve_shared;
}

__device__ inline void SyncThreads() { __syncthreads(); }
__device__ inline void SyncWarp() { __syncwarp(); }

template <typename T>
__device__ inline T ShuffleXor(T value, int mask) {
  return __shfl_xor_sync(kAllLanes, value, mask);
}
template <typename T>
__device__ inline T Shuffle(T value, int lane) {
  return __shfl_sync(kAllLanes, value, lane);
}
__device__ inline bool Any(bool value) { return __any_sync(kAllLanes, value) != 0; }

__device__ inline unsigned SharedAddress(const void* p) {
  return static_cast<unsigned>(__cvta_generic_to_shared(p));
}

// Lane i gives the address of row i % 8 of 8x8 matrix i / 8; r[m] gets two neighbours of matrix m.
__device__ inline void LoadMatrix4(uint32_t (&r)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(SharedAddress(row))
               : "memory");
}
__device__ inline void LoadMatrix4Transposed(uint32_t (&r)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(SharedAddress(row))
               : "memory");
}

// d += a * b: a is 16x16 (row), b 16x8 (column), d 16x8, as mma.m16n8k16 lays them out.
__device__ inline void MmaBf16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// 16 bytes into shared memory, zeros when not `valid` (`global` must be a readable address then
// too, but is not read).
__device__ inline void CopyAsync16(void* shared, const void* global, bool valid) {
  const int bytes = valid ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(SharedAddress(shared)),
               "l"(global), "r"(bytes)
               : "memory");
}
__device__ inline void CopyAsyncCommit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int kPending>
__device__ inline void CopyAsyncWait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

struct alignas(16) Words4 {
  uint32_t w[4];
};
__device__ inline Words4 Load16(const void* p) {
  const uint4 v = *static_cast<const uint4*>(p);
  return {{v.x, v.y, v.z, v.w}};
}
__device__ inline void Store16(void* p, const Words4& v) {
  *static_cast<uint4*>(p) = make_uint4(v.w[0], v.w[1], v.w[2], v.w[3]);
}

__device__ inline float ToFloat(Bf16 v) {
  return __uint_as_float(static_cast<uint32_t>(v.bits) << 16);
}
__device__ inline Bf16 ToBf16(float v) { return {__bfloat16_as_ushort(__float2bfloat16_rn(v))}; }
__device__ inline float BitsToFloat(uint32_t bits) { return __uint_as_float(bits); }
// Two bf16 in a word, `low` first in memory.
__device__ inline uint32_t Pack(float low, float high) {
  const __nv_bfloat162 v = __floats2bfloat162_rn(low, high);
  return static_cast<uint32_t>(__bfloat16_as_ushort(v.x)) |
         static_cast<uint32_t>(__bfloat16_as_ushort(v.y)) << 16;
}
// The two into memory at once; `to` is 4-byte aligned.
__device__ inline void StorePair(Bf16* to, float low, float high) {
  *reinterpret_cast<uint32_t*>(to) = Pack(low, high);
}

__device__ inline float Exp2(float v) { return exp2f(v); }
__device__ inline float Exp(float v) { return expf(v); }
__device__ inline float Log(float v) { return logf(v); }
__device__ inline float Rsqrt(float v) { return rsqrtf(v); }
__device__ inline float Erf(float v) { return erff(v); }
__device__ inline void SinCos(float v, float* sine, float* cosine) { sincosf(v, sine, cosine); }
__device__ inline float FusedMultiplyAdd(float a, float b, float c) { return fmaf(a, b, c); }
__device__ inline float Infinity() { return __int_as_float(0x7f800000); }

}  // namespace rserve::kernels::cuda

#endif  // RSERVE_KERNELS_CUDA_DEVICE_GPU_CUH_
