// Softmax attention on a device, flash style: queries of a tile against their keys in tiles of 64,
// with an online softmax; tensor-core products of bf16 with f32 sums.
//
//   AttendSegments   rows of a segment see all keys of their segment (vision: windows or frames of
//                    any length, one after another, unpadded)
//   AttendPaged      chunked causal attention with grouped heads over the paged cache that KvWrite
//                    fills; a chunk may begin at any token
//
// Order. Key tiles begin at multiples of 64 of the key's index in its segment or prompt. For a row
// and a tile: s = q k^T, summed over head_dim in steps of 16 by the tensor core; m' = max(m, s);
// p = 2^((s - m') scale log2 e), rounded to bf16 for the product with v, unrounded in the sum l;
// out = out 2^((m - m') scale log2 e) + p v; at the end out / l, rounded once. A tile that a row
// does not see changes nothing in it, so a row's result depends neither on its chunk, nor on the
// rows beside it, nor on the blocks: the same bits for every cut.
//
// Error against exact arithmetic: rounding p costs 2^-9 relative to the largest |v|, the output
// 2^-9 of itself; the f32 sums are far below that.
//
// Launch: 128 threads; a warp takes 16 of the tile's 64 rows. Row r of a tile is query r / group,
// head r % group of a key head, so that short chunks fill tiles too. grid x: tiles of the plan
// (attention_plan.h), grid y: key heads. Keys and values lie in two stages of shared memory filled
// by cp.async while the other stage is computed on; rows are 16 bytes longer than the head, which
// keeps ldmatrix free of bank conflicts. The queries pass through stage 1 into registers.
//
//   head_dim up to    32      64      80     128
//   shared bytes   20480   36864   45056   69632   (4 * 64 * (dim + 8) * 2)
//   registers        107     133     168     234   (sm_80; no spills, docs/cuda-ptxas.txt)
// Blocks an SM: the least of 164 KiB (sm_80) or 228 KiB (sm_90) over shared bytes and 1 KiB of the
// system's, and 65536 over 128 * registers: on sm_80 4, 3, 3, 2; on sm_90 4, 3, 3, 2. Two blocks of
// head_dim 128 are 8 warps, 2 for each scheduler: one computes while the other waits.
// Work: 4 * rows * keys * dim flops a head (half of it masked on the diagonal only).

#ifndef RSERVE_KERNELS_ATTENTION_ATTENTION_CUDA_H_
#define RSERVE_KERNELS_ATTENTION_ATTENTION_CUDA_H_

#include <cstdint>

#include "kernels/cuda/types.h"

namespace rserve::kernels::cuda {

inline constexpr int kAttentionTileRows = 64;  // (query, head) pairs a block takes
inline constexpr int kAttentionTileKeys = 64;
inline constexpr int kAttentionMaxHeadDim = 128;

// Query rows that share their keys.
struct AttentionSegment {
  int64_t row_begin = 0;  // first query row in q and out
  int32_t rows = 0;       // query rows
  // Segments: keys of the segment. Paged: keys before the first query; query i sees keys + i + 1.
  int32_t keys = 0;
  // Segments: row of the first key in k and v. Paged: index of the first block in block_table.
  int64_t first = 0;
};

// One block's work: rows [first_row, first_row + kAttentionTileRows) of a segment's rows * group.
struct AttentionTile {
  int32_t segment = 0;
  int32_t first_row = 0;
};

struct AttentionArgs {
  const Bf16* q = nullptr;  // head h of row r at q + r * q_stride + h * head_stride
  int64_t q_stride = 0;
  Bf16* out = nullptr;  // likewise
  int64_t out_stride = 0;
  int64_t head_stride = 0;  // between heads of q and out, and of k and v where they are no cache
  // Columns of a head: a multiple of 8 up to kAttentionMaxHeadDim. A model whose heads are no
  // multiple of 8 pads them with zero columns, which add nothing to any product.
  int32_t head_dim = 0;
  int32_t kv_heads = 0;
  int32_t group = 1;  // query heads a key head
  float scale = 1.0f;

  const AttentionSegment* segments = nullptr;  // in device memory, as are the tiles
  const AttentionTile* tiles = nullptr;
  int64_t num_tiles = 0;

  // AttendSegments: head h of row j at k + j * kv_stride + h * head_stride.
  const Bf16* k = nullptr;
  const Bf16* v = nullptr;
  int64_t kv_stride = 0;

  // AttendPaged: a layer's cache as KvWrite lays it out, tokens cache_stride apart.
  const Bf16* cache = nullptr;
  int64_t cache_stride = 0;
  const int32_t* block_table = nullptr;
  int32_t block_tokens = 0;
};

// All rows are 16-byte aligned: pointers, and strides that are multiples of 8.
Result AttendSegments(const AttentionArgs& args, StreamRef stream);
Result AttendPaged(const AttentionArgs& args, StreamRef stream);

}  // namespace rserve::kernels::cuda

#endif  // RSERVE_KERNELS_ATTENTION_ATTENTION_CUDA_H_
