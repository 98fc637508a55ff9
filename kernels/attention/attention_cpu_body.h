// Attention for one instruction set; the order of every sum is stated in attention.h.

#ifndef RSERVE_KERNELS_ATTENTION_ATTENTION_CPU_BODY_H_
#define RSERVE_KERNELS_ATTENTION_ATTENTION_CPU_BODY_H_

#include "kernels/attention/attention.h"
#include "kernels/attention/attention_layout.h"
#include "kernels/cpu/simd.h"
#include "kernels/gemm/gemm_cpu_body.h"

namespace rserve::kernels::RSERVE_ISA {

static_assert(kMaxHeadDim <= kAttentionLeftStride && kKeyTile <= kAttentionLeftStride);

inline constexpr int kAttentionBlockRows = kLanes == 16 ? kMr * 32 : kMr * 14;
// Vectors in 16 columns, the unit that keys and head dimensions are padded to.
inline constexpr int kNv16 = 16 / kLanes < kNv ? 16 / kLanes : kNv;

inline int64_t Pad16(int64_t n) { return (n + 15) / 16 * 16; }

// The micro-kernel that is `vectors` (kNv16 .. kNv) wide.
template <int N = kNv>
MicroFn<F32Steps> PickWidth(int rows, int vectors) {
  if constexpr (N > kNv16) {
    if (vectors < N) return PickWidth<N - 1>(rows, vectors);
  }
  return PickMicro<N, F32Steps, StridedRows<kAttentionLeftStride>>(rows);
}

// c[rows][columns] (+)= a * b over columns, a multiple of 16, cut into nearly equal widths: a
// register tile of one vector would have too few sums to hide the multiply-add's latency.
inline void MultiplyColumns(int rows, int64_t columns, int64_t k, const float* a, const float* b,
                            int64_t b_stride, float* c, int64_t c_stride, bool first) {
  int width = 0, wider = 0;
  const int count = CutEvenly(static_cast<int>(columns / kLanes), kNv, &width, &wider);
  for (int i = 0; i < count; ++i) {
    const int vectors = i < wider ? width + 1 : width;
    PickWidth(rows, vectors)(k, a, b, b_stride, c, c_stride, first, {a, 0});
    b += vectors * kLanes;
    c += vectors * kLanes;
  }
}

typedef float V4Unaligned __attribute__((vector_size(16), aligned(4), may_alias));
inline V4 Load4(const float* p) { return *reinterpret_cast<const V4Unaligned*>(p); }
inline void Store4(float* p, V4 v) { *reinterpret_cast<V4Unaligned*>(p) = v; }

// keys[d][j] = k[j][d] for j < n; columns up to the next multiple of 16 become 0.
inline void TransposeKeys(const float* k, int64_t stride, int64_t n, int64_t head_dim,
                          float* keys) {
  int64_t j = 0;
  for (; j + 4 <= n; j += 4) {
    const float* row = k + j * stride;
    int64_t d = 0;
    for (; d + 4 <= head_dim; d += 4) {
      const V4 a = Load4(row + d), b = Load4(row + stride + d);
      const V4 c = Load4(row + 2 * stride + d), e = Load4(row + 3 * stride + d);
      const V4 ab_low = __builtin_shufflevector(a, b, 0, 4, 1, 5);
      const V4 ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
      const V4 ce_low = __builtin_shufflevector(c, e, 0, 4, 1, 5);
      const V4 ce_high = __builtin_shufflevector(c, e, 2, 6, 3, 7);
      float* out = keys + d * kAttentionKeyStride + j;
      Store4(out, __builtin_shufflevector(ab_low, ce_low, 0, 1, 4, 5));
      Store4(out + kAttentionKeyStride, __builtin_shufflevector(ab_low, ce_low, 2, 3, 6, 7));
      Store4(out + 2 * kAttentionKeyStride, __builtin_shufflevector(ab_high, ce_high, 0, 1, 4, 5));
      Store4(out + 3 * kAttentionKeyStride, __builtin_shufflevector(ab_high, ce_high, 2, 3, 6, 7));
    }
    for (; d < head_dim; ++d) {
      for (int i = 0; i < 4; ++i) keys[d * kAttentionKeyStride + j + i] = row[i * stride + d];
    }
  }
  for (; j < n; ++j) {
    for (int64_t d = 0; d < head_dim; ++d) keys[d * kAttentionKeyStride + j] = k[j * stride + d];
  }
}

// Brings keys [begin, begin + n) and their values into the tile, padded with zeros.
inline void GatherTile(const AttentionRows& rows, const AttentionLayout& layout, int64_t begin,
                       int64_t n, float* keys, float* values) {
  const int64_t dim = rows.head_dim;
  if (rows.blocks == nullptr) {
    TransposeKeys(rows.k + begin * rows.kv_stride, rows.kv_stride, n, dim, keys);
    for (int64_t j = 0; j < n; ++j) {
      CopyFloats(values + j * layout.value_stride, rows.v + (begin + j) * rows.kv_stride, dim);
    }
  } else {
    for (int64_t j = 0; j < n;) {
      const int64_t block = (begin + j) / rows.block_tokens;
      const int64_t slot = (begin + j) % rows.block_tokens;
      const int64_t run = rows.block_tokens - slot < n - j ? rows.block_tokens - slot : n - j;
      const int64_t base = rows.blocks[block] * rows.kv_stride;
      const float* k = rows.k + base + slot;
      for (int64_t d = 0; d < dim; ++d) {
        CopyFloats(keys + d * kAttentionKeyStride + j, k + d * rows.block_tokens, run);
      }
      const float* v = rows.v + base + slot * dim;
      for (int64_t i = 0; i < run; ++i) {
        CopyFloats(values + (j + i) * layout.value_stride, v + i * dim, dim);
      }
      j += run;
    }
  }
  for (int64_t d = 0; d < dim; ++d) {
    for (int64_t j = n; j < Pad16(n); ++j) keys[d * kAttentionKeyStride + j] = 0.0f;
  }
  for (int64_t j = 0; j < n; ++j) {
    for (int64_t d = dim; d < layout.padded_dim; ++d) values[j * layout.value_stride + d] = 0.0f;
  }
}

// Turns one row's `n` (> 0) scores into exponentials and carries maximum, total and sums over.
inline void SoftmaxTile(float* scores, int64_t n, float* maximum, float* total, float* sums,
                        int64_t padded_dim) {
  const int64_t padded = Pad16(n);
  for (int64_t j = n; j < padded; ++j) scores[j] = -__builtin_inff();
  V best = Load(scores);
  for (int64_t j = kLanes; j < padded; j += kLanes) best = ClampLow(Load(scores + j), best);
  const float next = Larger::Of(*maximum, LargestLane(best));
  Sum16 sum;
  const V shift = Splat(next);
  for (int64_t j = 0; j < padded; j += 16) {
    for (int i = 0; i < Sum16::kParts; ++i) {
      const V p = Exp(Load(scores + j + i * kLanes) - shift);
      Store(scores + j + i * kLanes, p);
      sum.part[i] += p;
    }
  }
  if (next == *maximum) {
    *total += sum.Total();  // what was before decays by e^0, exactly 1
    return;
  }
  const float decay = Exp(Splat(*maximum - next))[0];
  *total = *total * decay + sum.Total();
  *maximum = next;
  for (int64_t d = 0; d < padded_dim; d += kLanes) Store(sums + d, Load(sums + d) * decay);
}

inline void Attend(const AttentionRows& rows, float* scratch) {
  const AttentionLayout layout = LayOutAttention(kAttentionBlockRows, kMr, rows.head_dim);
  const int count = static_cast<int>(rows.queries * rows.group);
  float* q = scratch + layout.q;
  float* scores = scratch + layout.scores;
  float* keys = scratch + layout.keys;
  float* values = scratch + layout.values;
  float* sums = scratch + layout.sums;
  float* maxima = scratch + layout.maxima;
  float* totals = scratch + layout.totals;

  for (int r = 0; r < count; ++r) {
    const float* from = rows.q + r / rows.group * rows.q_stride + r % rows.group * rows.head_dim;
    for (int64_t d = 0; d < rows.head_dim; ++d) {
      q[r * kAttentionLeftStride + d] = from[d] * rows.scale;
    }
    for (int64_t d = 0; d < layout.padded_dim; ++d) sums[r * layout.value_stride + d] = 0.0f;
    maxima[r] = -__builtin_inff();
    totals[r] = 0.0f;
  }

  const int64_t most = rows.limit + (rows.queries - 1) * rows.limit_step;
  int height = 0, taller = 0;
  const int tiles = CutEvenly(count, kMr, &height, &taller);
  for (int64_t begin = 0; begin < most; begin += kKeyTile) {
    const int64_t tile_keys = most - begin < kKeyTile ? most - begin : kKeyTile;
    GatherTile(rows, layout, begin, tile_keys, keys, values);
    int r0 = 0;
    for (int tile = 0; tile < tiles; ++tile) {
      const int size = tile < taller ? height + 1 : height;
      int64_t seen[kMr];
      int64_t fewest = tile_keys, largest = 0;
      for (int r = 0; r < size; ++r) {
        int64_t n = rows.limit + (r0 + r) / rows.group * rows.limit_step - begin;
        n = n < 0 ? 0 : (n > tile_keys ? tile_keys : n);
        seen[r] = n;
        fewest = n < fewest ? n : fewest;
        largest = n > largest ? n : largest;
      }
      if (largest > 0) {
        MultiplyColumns(size, Pad16(largest), rows.head_dim, q + r0 * kAttentionLeftStride, keys,
                        kAttentionKeyStride, scores, kAttentionLeftStride, true);
        float* tile_sums = sums + r0 * layout.value_stride;
        for (int r = 0; r < size; ++r) {
          if (seen[r] == 0) continue;
          SoftmaxTile(scores + r * kAttentionLeftStride, seen[r], maxima + r0 + r, totals + r0 + r,
                      tile_sums + r * layout.value_stride, layout.padded_dim);
        }
        // The keys all rows see, together; what some rows see beyond them, row by row.
        MultiplyColumns(size, layout.padded_dim, fewest, scores, values, layout.value_stride,
                        tile_sums, layout.value_stride, false);
        for (int r = 0; r < size; ++r) {
          if (seen[r] == fewest) continue;
          MultiplyColumns(1, layout.padded_dim, seen[r] - fewest,
                          scores + r * kAttentionLeftStride + fewest,
                          values + fewest * layout.value_stride, layout.value_stride,
                          tile_sums + r * layout.value_stride, layout.value_stride, false);
        }
      }
      r0 += size;
    }
  }

  for (int r = 0; r < count; ++r) {
    float* to = rows.out + r / rows.group * rows.out_stride + r % rows.group * rows.head_dim;
    const float inverse = 1.0f / totals[r];
    for (int64_t d = 0; d < rows.head_dim; ++d) {
      to[d] = sums[r * layout.value_stride + d] * inverse;
    }
  }
}

}  // namespace rserve::kernels::RSERVE_ISA

#endif  // RSERVE_KERNELS_ATTENTION_ATTENTION_CPU_BODY_H_
