// Embedding gather and merge; see embedding_cuda.h.

#ifndef RSERVE_KERNELS_EMBEDDING_EMBEDDING_KERNEL_CUH_
#define RSERVE_KERNELS_EMBEDDING_EMBEDDING_KERNEL_CUH_

#include "kernels/cuda/device.cuh"
#include "kernels/embedding/embedding_cuda.h"

namespace rserve::kernels::cuda {

inline constexpr int kEmbeddingThreads = 128;

// Eight elements a thread, or one; item buffers are then aligned as the contract says.
template <int kVector>
__global__ void __launch_bounds__(kEmbeddingThreads) EmbeddingKernel(const EmbeddingArgs args) {
  const int64_t row = BlockX();
  const int64_t at = (BlockY() * BlockThreads() + ThreadId()) * kVector;
  if (at >= args.width) return;
  const int32_t source = args.sources[row];
  const Bf16* from;
  if (source >= 0) {
    from = args.table + int64_t{source} * args.table_stride;
  } else {
    const ItemRows item = args.items[-1 - source];
    from = item.data + (row - item.row_begin) * args.item_stride;
  }
  Bf16* to = args.y + row * args.y_stride + at;
  if constexpr (kVector == 8) {
    Store16(to, Load16(from + at));
  } else {
    to[0] = from[at];
  }
}

}  // namespace rserve::kernels::cuda

#endif  // RSERVE_KERNELS_EMBEDDING_EMBEDDING_KERNEL_CUH_
