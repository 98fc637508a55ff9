// Softmax attention of query rows over keys that lie in segments (vision) or in a paged cache.
//
// Keys are taken in tiles of kKeyTile, aligned to the key's absolute index in its segment or
// prompt, with a running maximum and sum (online softmax). A row's result is fixed by its own
// query and its keys 0 .. limit-1:
//   scores   s[j] = chain of fma(q[d] * scale, k[j][d], .) over d;
//   a tile   m' = max(m, max s), p[j] = exp(s[j] - m'), l' = l * exp(m - m') + sum p (16 lanes, one
//            tree), out[d] = out[d] * exp(m - m'), then a chain of fma(p[j], v[j][d], .) over j;
//   the end  out[d] / l.
// A key beyond the row's limit adds no step, so neither the chunk that the row came in, nor the
// rows beside it, nor the block size of the cache can change a bit.

#ifndef RSERVE_KERNELS_ATTENTION_ATTENTION_H_
#define RSERVE_KERNELS_ATTENTION_ATTENTION_H_

#include <cstdint>

#include "kernels/cpu/isa.h"

namespace rserve::kernels {

inline constexpr int64_t kKeyTile = 128;
inline constexpr int64_t kMaxHeadDim = 256;

// One task of the core below: the rows (query, head) that share one key-value head.
struct AttentionRows {
  int64_t head_dim = 0;  // 1 .. kMaxHeadDim
  float scale = 1.0f;
  // Row r is query r / group of the block, head r % group.
  int64_t queries = 0;
  int64_t group = 1;
  const float* q = nullptr;  // first query, first head; strides in floats
  int64_t q_stride = 0;      // between queries; heads are head_dim apart
  float* out = nullptr;
  int64_t out_stride = 0;
  // Keys that query i sees: limit + i * limit_step (step 1: causal, 0: all see the same).
  int64_t limit = 0;
  int64_t limit_step = 0;

  // Keys and values by index. Contiguous: row j at k + j * kv_stride (blocks == nullptr).
  const float* k = nullptr;
  const float* v = nullptr;
  int64_t kv_stride = 0;
  // Paged: key j lies in block blocks[j / block_tokens]; a block's keys are transposed,
  // [head_dim][block_tokens], its values [block_tokens][head_dim]; blocks lie kv_stride apart.
  const int32_t* blocks = nullptr;
  int64_t block_tokens = 0;
};

// Runs one task: queries * group <= isa.attention_block_rows. `scratch`:
// AttentionScratchFloats(isa) floats of this worker alone.
void AttendRows(const KernelTable& isa, const AttentionRows& rows, float* scratch);
int64_t AttentionScratchFloats(const KernelTable& isa);

// Writes one token's key and value of one head into its place in a paged cache's block.
// k_block and v_block: the head's part of the block.
void StoreKeyValue(const float* k, const float* v, int64_t head_dim, int64_t block_tokens,
                   int64_t slot, float* k_block, float* v_block);

}  // namespace rserve::kernels

#endif  // RSERVE_KERNELS_ATTENTION_ATTENTION_H_
