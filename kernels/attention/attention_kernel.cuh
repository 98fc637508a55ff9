// Flash attention over segments or a paged cache; see attention_cuda.h.

#ifndef RSERVE_KERNELS_ATTENTION_ATTENTION_KERNEL_CUH_
#define RSERVE_KERNELS_ATTENTION_ATTENTION_KERNEL_CUH_

#include "kernels/attention/attention_cuda.h"
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/divider.h"

namespace rserve::kernels::cuda {

inline constexpr int kAttentionThreads = 128;

// What the launcher adds to the caller's arguments.
struct AttentionParams {
  AttentionArgs args;
  Divider group;
  Divider block_tokens;
  float scale_log2 = 0.0f;  // scale * log2(e)
};

__device__ inline int32_t Divide(int32_t n, const Divider& by) {
  return static_cast<int32_t>(uint64_t{static_cast<uint32_t>(n)} * by.multiplier >> by.shift);
}

// A block's place: its tile and its key head.
struct AttentionPlace {
  AttentionSegment segment;
  int32_t first_row;  // of rows * group
  int32_t end_row;
  int32_t head;  // key head
  int32_t keys;  // that the tile's last row sees
};

// Rows of shared memory: `kDim` columns and 16 bytes more.
template <int kDim>
inline constexpr int kAttentionRow = kDim + 8;

template <int kDim, bool kPaged>
__device__ inline void LoadKeys(const AttentionParams& p, const AttentionPlace& at, int32_t begin,
                                Bf16* keys, Bf16* values) {
  constexpr int kChunks = kDim / 8;
  const AttentionArgs& args = p.args;
  RSERVE_UNROLL
  for (int i = 0; i < kAttentionTileKeys * kChunks / kAttentionThreads; ++i) {
    const int item = i * kAttentionThreads + ThreadId();
    const int row = item / kChunks, column = item % kChunks * 8;
    const int32_t key = begin + row;
    const bool valid = key < at.keys && column < args.head_dim;
    const Bf16* k;
    const Bf16* v;
    if constexpr (kPaged) {
      const int32_t index = Divide(valid ? key : 0, p.block_tokens);
      const int32_t slot = (valid ? key : 0) - index * args.block_tokens;
      const int64_t block = args.block_table[at.segment.first + index];
      const int64_t half = args.block_tokens * args.cache_stride;
      k = args.cache + (block * args.kv_heads + at.head) * 2 * half + slot * args.cache_stride +
          (valid ? column : 0);
      v = k + half;
    } else {
      const int64_t offset = (at.segment.first + (valid ? key : 0)) * args.kv_stride +
                             at.head * args.head_stride + (valid ? column : 0);
      k = args.k + offset;
      v = args.v + offset;
    }
    const int to = row * kAttentionRow<kDim> + column;
    CopyAsync16(keys + to, k, valid);
    CopyAsync16(values + to, v, valid);
  }
}

template <int kDim>
__device__ inline void LoadQueries(const AttentionParams& p, const AttentionPlace& at,
                                   Bf16* queries) {
  constexpr int kChunks = kDim / 8;
  const AttentionArgs& args = p.args;
  RSERVE_UNROLL
  for (int i = 0; i < kAttentionTileRows * kChunks / kAttentionThreads; ++i) {
    const int item = i * kAttentionThreads + ThreadId();
    const int row = item / kChunks, column = item % kChunks * 8;
    const int32_t packed = at.first_row + row;
    const bool valid = packed < at.end_row && column < args.head_dim;
    const int32_t query = Divide(valid ? packed : 0, p.group);
    const int32_t head = at.head * args.group + (valid ? packed : 0) - query * args.group;
    const Bf16* from = args.q + (at.segment.row_begin + query) * args.q_stride +
                       head * args.head_stride + (valid ? column : 0);
    CopyAsync16(queries + row * kAttentionRow<kDim> + column, from, valid);
  }
}

// Running softmax of the two rows that a thread holds parts of: g and g + 8, g = Lane() / 4.
struct SoftmaxRows {
  float maximum[2];
  float sum[2];  // this thread's columns only
};

// Scores of a tile into probabilities; the factors of what was summed before into `decay`.
template <int kTiles>
__device__ inline void SoftmaxStep(float (&s)[kTiles][4], float scale_log2, SoftmaxRows* rows,
                                   float (&decay)[2]) {
  RSERVE_UNROLL
  for (int half = 0; half < 2; ++half) {
    float best = rows->maximum[half];
    RSERVE_UNROLL
    for (int n = 0; n < kTiles; ++n) {
      best = s[n][2 * half] > best ? s[n][2 * half] : best;
      best = s[n][2 * half + 1] > best ? s[n][2 * half + 1] : best;
    }
    // The row lies in four neighbouring lanes.
    RSERVE_UNROLL
    for (int mask = 1; mask <= 2; mask *= 2) {
      const float other = ShuffleXor(best, mask);
      best = other > best ? other : best;
    }
    decay[half] = Exp2((rows->maximum[half] - best) * scale_log2);
    rows->maximum[half] = best;
    const float shift = best * scale_log2;
    float sum = 0.0f;
    RSERVE_UNROLL
    for (int n = 0; n < kTiles; ++n) {
      RSERVE_UNROLL
      for (int i = 2 * half; i < 2 * half + 2; ++i) {
        s[n][i] = Exp2(FusedMultiplyAdd(s[n][i], scale_log2, -shift));
        sum += s[n][i];
      }
    }
    rows->sum[half] = rows->sum[half] * decay[half] + sum;
  }
}

template <int kDim, bool kPaged>
__global__ void __launch_bounds__(kAttentionThreads) AttentionKernel(const AttentionParams p) {
  constexpr int kRow = kAttentionRow<kDim>;
  constexpr int kSteps = kDim / 16;                      // of a product over the head
  constexpr int kKeyTiles = kAttentionTileKeys / 8;      // of 8 keys
  constexpr int kStage = 2 * kAttentionTileKeys * kRow;  // keys and values
  const AttentionArgs& args = p.args;
  auto* shared = reinterpret_cast<Bf16*>(Shared());

  AttentionPlace at;
  const AttentionTile tile = args.tiles[BlockX()];
  at.segment = args.segments[tile.segment];
  at.first_row = tile.first_row;
  at.head = static_cast<int32_t>(BlockY());
  const int32_t all_rows = at.segment.rows * args.group;
  at.end_row =
      at.first_row + kAttentionTileRows < all_rows ? at.first_row + kAttentionTileRows : all_rows;
  if (at.first_row >= at.end_row) return;
  at.keys = kPaged ? at.segment.keys + Divide(at.end_row - 1, p.group) + 1 : at.segment.keys;

  LoadQueries<kDim>(p, at, shared + kStage);
  CopyAsyncCommit();
  LoadKeys<kDim, kPaged>(p, at, 0, shared, shared + kAttentionTileKeys * kRow);
  CopyAsyncCommit();
  CopyAsyncWait<1>();
  SyncThreads();
  uint32_t q[kSteps][4];
  RSERVE_UNROLL
  for (int step = 0; step < kSteps; ++step) {
    LoadMatrix4(q[step],
                shared + kStage + (Warp() * 16 + Lane() % 16) * kRow + step * 16 + Lane() / 16 * 8);
  }

  // The keys that this thread's two rows see; rows beyond the end see what the last one does.
  int32_t limit[2];
  RSERVE_UNROLL
  for (int half = 0; half < 2; ++half) {
    const int32_t packed = at.first_row + Warp() * 16 + Lane() / 4 + half * 8;
    limit[half] =
        kPaged && packed < at.end_row ? at.segment.keys + Divide(packed, p.group) + 1 : at.keys;
  }
  // The fewest that any row of the tile sees: tiles below it need no mask.
  const int32_t fewest = kPaged ? at.segment.keys + Divide(at.first_row, p.group) + 1 : at.keys;

  SoftmaxRows rows = {{-Infinity(), -Infinity()}, {0.0f, 0.0f}};
  float out[kDim / 8][4];
  RSERVE_UNROLL
  for (int n = 0; n < kDim / 8; ++n) {
    RSERVE_UNROLL
    for (int i = 0; i < 4; ++i) out[n][i] = 0.0f;
  }

  int stage = 0;
  for (int32_t begin = 0; begin < at.keys; begin += kAttentionTileKeys) {
    CopyAsyncWait<0>();
    // This tile is there for all, and all are done with the one before (or with the queries).
    SyncThreads();
    const Bf16* keys = shared + stage * kStage;
    const Bf16* values = keys + kAttentionTileKeys * kRow;
    stage ^= 1;
    if (begin + kAttentionTileKeys < at.keys) {
      Bf16* next = shared + stage * kStage;
      LoadKeys<kDim, kPaged>(p, at, begin + kAttentionTileKeys, next,
                             next + kAttentionTileKeys * kRow);
      CopyAsyncCommit();
    }

    float s[kKeyTiles][4];
    RSERVE_UNROLL
    for (int n = 0; n < kKeyTiles; n += 2) {
      RSERVE_UNROLL
      for (int i = 0; i < 4; ++i) s[n][i] = s[n + 1][i] = 0.0f;
      RSERVE_UNROLL
      for (int step = 0; step < kSteps; ++step) {
        uint32_t k[4];  // 16 keys by 16 columns
        LoadMatrix4(k, keys + (n * 8 + Lane() / 16 * 8 + Lane() % 8) * kRow + step * 16 +
                           Lane() / 8 % 2 * 8);
        MmaBf16(s[n], q[step], k[0], k[1]);
        MmaBf16(s[n + 1], q[step], k[2], k[3]);
      }
    }
    if (begin + kAttentionTileKeys > fewest) {
      RSERVE_UNROLL
      for (int n = 0; n < kKeyTiles; ++n) {
        RSERVE_UNROLL
        for (int i = 0; i < 4; ++i) {
          const int32_t key = begin + n * 8 + Lane() % 4 * 2 + i % 2;
          if (key >= limit[i / 2]) s[n][i] = -Infinity();
        }
      }
    }

    float decay[2];
    SoftmaxStep(s, p.scale_log2, &rows, decay);
    RSERVE_UNROLL
    for (int n = 0; n < kDim / 8; ++n) {
      RSERVE_UNROLL
      for (int i = 0; i < 4; ++i) out[n][i] *= decay[i / 2];
    }
    RSERVE_UNROLL
    for (int step = 0; step < kAttentionTileKeys / 16; ++step) {
      const float(&low)[4] = s[2 * step];
      const float(&high)[4] = s[2 * step + 1];
      const uint32_t weights[4] = {Pack(low[0], low[1]), Pack(low[2], low[3]),
                                   Pack(high[0], high[1]), Pack(high[2], high[3])};
      RSERVE_UNROLL
      for (int n = 0; n < kDim / 8; n += 2) {
        uint32_t v[4];  // 16 keys by 16 columns
        LoadMatrix4Transposed(v,
                              values + (step * 16 + Lane() % 16) * kRow + n * 8 + Lane() / 16 * 8);
        MmaBf16(out[n], weights, v[0], v[1]);
        MmaBf16(out[n + 1], weights, v[2], v[3]);
      }
    }
  }

  RSERVE_UNROLL
  for (int half = 0; half < 2; ++half) {
    float sum = rows.sum[half];
    sum += ShuffleXor(sum, 1);
    sum += ShuffleXor(sum, 2);
    const float inverse = 1.0f / sum;
    const int32_t packed = at.first_row + Warp() * 16 + Lane() / 4 + half * 8;
    if (packed >= at.end_row) continue;
    const int32_t query = Divide(packed, p.group);
    const int32_t head = at.head * args.group + packed - query * args.group;
    Bf16* to = args.out + (at.segment.row_begin + query) * args.out_stride +
               head * args.head_stride + Lane() % 4 * 2;
    RSERVE_UNROLL
    for (int n = 0; n < kDim / 8; ++n) {
      if (n * 8 < args.head_dim) {
        StorePair(to + n * 8, out[n][2 * half] * inverse, out[n][2 * half + 1] * inverse);
      }
    }
  }
}

}  // namespace rserve::kernels::cuda

#endif  // RSERVE_KERNELS_ATTENTION_ATTENTION_KERNEL_CUH_
