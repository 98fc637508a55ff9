#include "capi/host_work.h"

// Published layouts that do not grow.
static_assert(sizeof(rserve_unit_ref) == 16);
static_assert(sizeof(rserve_embedding_slice) == 32);
static_assert(sizeof(rserve_stage_entry) == 64 || sizeof(void*) != 8);
static_assert(sizeof(rserve_unit) == 32);
static_assert(sizeof(rserve_span) == 32);
static_assert(sizeof(rserve_worker) == 16);

namespace rserve::capi {

void StageEntries::Clear() {
  entries_.clear();
  kv_blocks_.clear();
  slices_.clear();
}

void StageEntries::Add(const BatchEntry& chunk, absl::Span<const int32_t> kv_blocks,
                       absl::Span<const EmbeddingSlice> slices, bool last_chunk, bool ended) {
  rserve_stage_entry entry{};
  entry.request_id = chunk.request;
  entry.token_begin = chunk.begin;
  entry.tokens = chunk.tokens;
  entry.num_kv_blocks = kv_blocks.size();
  entry.num_slices = slices.size();
  entry.flags = (last_chunk ? RSERVE_ENTRY_F_LAST_CHUNK : 0u) | (ended ? RSERVE_ENTRY_F_ENDED : 0u);
  entries_.push_back(entry);
  kv_blocks_.insert(kv_blocks_.end(), kv_blocks.begin(), kv_blocks.end());
  for (const EmbeddingSlice& slice : slices) {
    slices_.push_back({slice.token_begin, slice.tokens, slice.row_begin, slice.unit, 0});
  }
}

const std::vector<rserve_stage_entry>& StageEntries::Finish() {
  const int32_t* blocks = kv_blocks_.data();
  const rserve_embedding_slice* slices = slices_.data();
  for (rserve_stage_entry& entry : entries_) {
    entry.kv_blocks = blocks;
    entry.slices = slices;
    blocks += entry.num_kv_blocks;
    slices += entry.num_slices;
  }
  return entries_;
}

}  // namespace rserve::capi
