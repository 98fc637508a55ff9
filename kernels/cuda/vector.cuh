// Reading and writing bf16 elements as f32, 8 at a time (16 bytes, aligned) or one by one.

#ifndef RSERVE_KERNELS_CUDA_VECTOR_CUH_
#define RSERVE_KERNELS_CUDA_VECTOR_CUH_

#include "kernels/cuda/device.cuh"

namespace rserve::kernels::cuda {

template <int kVector>
__device__ inline void LoadVector(const Bf16* from, float (&to)[kVector]) {
  static_assert(kVector == 1 || kVector == 8);
  if constexpr (kVector == 8) {
    const Words4 words = Load16(from);
    RSERVE_UNROLL
    for (int i = 0; i < 4; ++i) {
      to[2 * i] = BitsToFloat(words.w[i] << 16);
      to[2 * i + 1] = BitsToFloat(words.w[i] & 0xffff0000u);
    }
  } else {
    to[0] = ToFloat(from[0]);
  }
}

template <int kVector>
__device__ inline void StoreVector(Bf16* to, const float (&from)[kVector]) {
  static_assert(kVector == 1 || kVector == 8);
  if constexpr (kVector == 8) {
    Words4 words;
    RSERVE_UNROLL
    for (int i = 0; i < 4; ++i) words.w[i] = Pack(from[2 * i], from[2 * i + 1]);
    Store16(to, words);
  } else {
    to[0] = ToBf16(from[0]);
  }
}

}  // namespace rserve::kernels::cuda

#endif  // RSERVE_KERNELS_CUDA_VECTOR_CUH_
