// The input rows of the first stage: token embeddings, with rows of the items' embeddings in the
// places of their tokens.
//
// A copy: no arithmetic. Launch: grid x is the row, grid y a piece of it; a thread moves 8 elements
// (1 where not aligned), 128 threads a block; at 24 registers a thread, 16 blocks fill an SM's 2048
// threads. Bound by memory: 4 bytes an element.

#ifndef RSERVE_KERNELS_EMBEDDING_EMBEDDING_CUDA_H_
#define RSERVE_KERNELS_EMBEDDING_EMBEDDING_CUDA_H_

#include <cstdint>

#include "kernels/cuda/types.h"

namespace rserve::kernels::cuda {

// A part of an item's embedding buffer: row r of the batch takes row r - row_begin of it.
// `data` is 16-byte aligned.
struct ItemRows {
  const Bf16* data = nullptr;
  int64_t row_begin = 0;
};

struct EmbeddingArgs {
  const Bf16* table = nullptr;  // [vocabulary][table_stride]
  int64_t table_stride = 0;
  // [rows]: a token id, or -1 - i for a row of items[i]. The caller has checked their ranges.
  const int32_t* sources = nullptr;
  const ItemRows* items = nullptr;
  int64_t item_stride = 0;  // elements between rows of every item
  Bf16* y = nullptr;
  int64_t y_stride = 0;
  int64_t rows = 0;
  int64_t width = 0;
};
Result Embedding(const EmbeddingArgs& args, StreamRef stream);

}  // namespace rserve::kernels::cuda

#endif  // RSERVE_KERNELS_EMBEDDING_EMBEDDING_CUDA_H_
