#include "capi/stats.h"

namespace rserve::capi {

rserve_stats MakeStats(const OrchestratorStats& from, bool idle) {
  rserve_stats stats{};
  stats.idle = idle ? 1 : 0;
  stats.open_requests = from.open_requests;
  stats.lingering_requests = from.lingering_requests;
  stats.embedding_bytes = from.embedding_bytes;
  stats.peak_embedding_bytes = from.peak_embedding_bytes;
  stats.pixel_bytes = from.pixel_bytes;
  stats.peak_pixel_bytes = from.peak_pixel_bytes;
  stats.units_in_flight = from.units_in_flight;
  stats.kv_blocks_used = from.kv_blocks_used;
  stats.peak_kv_blocks_used = from.peak_kv_blocks_used;
  stats.input_bytes = from.input_bytes;
  stats.encode_batches = from.encode_batches;
  stats.encoded_units = from.encoded_units;
  stats.encoded_tokens = from.encoded_tokens;
  stats.micro_batches = from.micro_batches;
  stats.prefilled_tokens = from.prefilled_tokens;
  stats.accepted = from.accepted;
  stats.finished = from.finished;
  stats.failed = from.failed;
  stats.cancelled = from.cancelled;
  stats.refused = from.refused;
  stats.stale_tokens = from.stale_tokens;
  stats.reused_tokens = from.reused_tokens;
  stats.kv_blocks_cached = from.kv_blocks_cached;
  stats.kv_evictions = from.kv_evictions;
  return stats;
}

void AddCacheStats(const EmbeddingCacheStats& from, rserve_stats* stats) {
  stats->cache_hits = from.hits;
  stats->cache_shared = from.shared;
  stats->cache_misses = from.misses;
  stats->cache_evictions = from.evictions;
  stats->cache_bytes = from.bytes;
  stats->peak_cache_bytes = from.peak_bytes;
}

}  // namespace rserve::capi
