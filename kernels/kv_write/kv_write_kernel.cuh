// Paged cache write; see kv_write_cuda.h.

#ifndef RSERVE_KERNELS_KV_WRITE_KV_WRITE_KERNEL_CUH_
#define RSERVE_KERNELS_KV_WRITE_KV_WRITE_KERNEL_CUH_

#include "kernels/cuda/device.cuh"
#include "kernels/kv_write/kv_write_cuda.h"

namespace rserve::kernels::cuda {

inline constexpr int kKvWriteThreads = 128;

template <int kVector>
__global__ void __launch_bounds__(kKvWriteThreads) KvWriteKernel(const KvWriteArgs args) {
  const int64_t row = BlockX();
  const int64_t slot = args.slots[row];
  const auto vectors = static_cast<int32_t>(args.head_stride / kVector);
  const int64_t item = BlockY() * BlockThreads() + ThreadId();
  if (slot < 0 || item >= args.kv_heads * vectors) return;
  const int32_t head = static_cast<int32_t>(item) / vectors;
  const int64_t at = int64_t{static_cast<int32_t>(item) % vectors} * kVector;
  const int64_t from = row * args.stride + head * args.head_stride + at;
  const int64_t half = args.block_tokens * args.head_stride;  // keys of a head in a block
  const int64_t to = (slot / args.block_tokens * args.kv_heads + head) * 2 * half +
                     slot % args.block_tokens * args.head_stride + at;
  if constexpr (kVector == 8) {
    Store16(args.cache + to, Load16(args.k + from));
    Store16(args.cache + to + half, Load16(args.v + from));
  } else {
    args.cache[to] = args.k[from];
    args.cache[to + half] = args.v[from];
  }
}

}  // namespace rserve::kernels::cuda

#endif  // RSERVE_KERNELS_KV_WRITE_KV_WRITE_KERNEL_CUH_
