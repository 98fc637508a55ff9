// Where the parts of an attention task lie in its scratch: one function sizes it and carves it.

#ifndef RSERVE_KERNELS_ATTENTION_ATTENTION_LAYOUT_H_
#define RSERVE_KERNELS_ATTENTION_ATTENTION_LAYOUT_H_

#include <cstdint>

namespace rserve::kernels {

// Offsets in floats, all multiples of 16.
struct AttentionLayout {
  int64_t padded_dim = 0;    // head_dim rounded up to 16
  int64_t value_stride = 0;  // row stride of the value tile and of the sums
  int64_t q = 0;             // [rows][left stride], scaled queries
  int64_t scores = 0;        // [register tile rows][left stride]
  int64_t keys = 0;          // [head_dim][kKeyStride], transposed
  int64_t values = 0;        // [kKeyTile][value_stride]
  int64_t sums = 0;          // [rows][value_stride]
  int64_t maxima = 0;        // [rows]
  int64_t totals = 0;        // [rows]
  int64_t total = 0;
};

inline constexpr int64_t kAttentionLeftStride = 272;
// 9 cache lines a row, and an odd number of them for values too: rows spread over the cache's sets.
inline constexpr int64_t kAttentionKeyStride = 144;

inline AttentionLayout LayOutAttention(int64_t block_rows, int64_t tile_rows, int64_t head_dim) {
  AttentionLayout layout;
  layout.padded_dim = (head_dim + 15) / 16 * 16;
  layout.value_stride =
      layout.padded_dim / 16 % 2 == 0 ? layout.padded_dim + 16 : layout.padded_dim;
  const int64_t rows16 = (block_rows + 15) / 16 * 16;
  layout.scores = layout.q + block_rows * kAttentionLeftStride;
  layout.keys = layout.scores + tile_rows * kAttentionLeftStride;
  layout.values = layout.keys + head_dim * kAttentionKeyStride;
  layout.sums = layout.values + 128 * layout.value_stride;
  layout.maxima = layout.sums + block_rows * layout.value_stride;
  layout.totals = layout.maxima + rows16;
  layout.total = layout.totals + rows16;
  return layout;
}

}  // namespace rserve::kernels

#endif  // RSERVE_KERNELS_ATTENTION_ATTENTION_LAYOUT_H_
