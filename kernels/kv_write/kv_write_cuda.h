// Puts the keys and values of a micro-batch's rows into the paged cache of one layer.
//
// Cache of a layer, bf16: [block][kv_head]{ keys [block_tokens][head_stride], values likewise }. A
// row of a head is contiguous, as attention's 16-byte copies want it.
//
// A copy: no arithmetic. Launch: grid x is the row, grid y a piece of it; a thread moves 8 elements
// (1 where not aligned), 128 threads a block; at 26 registers a thread at most, 16 blocks fill an
// SM's 2048 threads. Bound by memory: 4 bytes an element.

#ifndef RSERVE_KERNELS_KV_WRITE_KV_WRITE_CUDA_H_
#define RSERVE_KERNELS_KV_WRITE_KV_WRITE_CUDA_H_

#include <cstdint>

#include "kernels/cuda/types.h"

namespace rserve::kernels::cuda {

struct KvWriteArgs {
  const Bf16* k = nullptr;  // first key head of row 0
  const Bf16* v = nullptr;
  int64_t stride = 0;       // elements between rows of k, and of v
  int64_t head_stride = 0;  // elements between heads of a row, and between tokens in the cache
  int64_t kv_heads = 0;
  // [rows]: block * block_tokens + slot of each row; a negative one is not written.
  const int64_t* slots = nullptr;
  Bf16* cache = nullptr;  // of this layer
  int64_t block_tokens = 0;
  int64_t rows = 0;
};
Result KvWrite(const KvWriteArgs& args, StreamRef stream);

}  // namespace rserve::kernels::cuda

#endif  // RSERVE_KERNELS_KV_WRITE_KV_WRITE_CUDA_H_
