// Which tiles a batch of attention segments is cut into; on the host, before the launch.

#ifndef RSERVE_KERNELS_ATTENTION_ATTENTION_PLAN_H_
#define RSERVE_KERNELS_ATTENTION_ATTENTION_PLAN_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "kernels/attention/attention_cuda.h"

namespace rserve::kernels::cuda {

// Appends the tiles of all segments to `tiles`, those with the most keys first, so that the last
// blocks to run are short ones. Segments without rows get none. `causal`: keys grow with the row.
inline void PlanAttention(const std::vector<AttentionSegment>& segments, int32_t group, bool causal,
                          std::vector<AttentionTile>* tiles) {
  tiles->clear();
  for (size_t s = 0; s < segments.size(); ++s) {
    const int64_t rows = int64_t{segments[s].rows} * group;
    for (int64_t first = 0; first < rows; first += kAttentionTileRows) {
      tiles->push_back({static_cast<int32_t>(s), static_cast<int32_t>(first)});
    }
  }
  const auto keys = [&](const AttentionTile& tile) {
    const AttentionSegment& segment = segments[static_cast<size_t>(tile.segment)];
    return int64_t{segment.keys} +
           (causal ? std::min<int64_t>((tile.first_row + kAttentionTileRows) / group, segment.rows)
                   : 0);
  };
  std::stable_sort(
      tiles->begin(), tiles->end(),
      [&](const AttentionTile& a, const AttentionTile& b) { return keys(a) > keys(b); });
}

}  // namespace rserve::kernels::cuda

#endif  // RSERVE_KERNELS_ATTENTION_ATTENTION_PLAN_H_
