/* What an engine has done; a part of rserve.h. */

#ifndef RSERVE_STATS_H_
#define RSERVE_STATS_H_

#include <stdint.h>

#include "rserve/engine.h"
#include "rserve/status.h"
#include "rserve/version.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rserve_stats {
  uint32_t struct_size;
  uint32_t idle;              /* 1: nothing open and nothing lingering */
  int64_t open_requests;      /* accepted, not ended */
  int64_t lingering_requests; /* ended, a computation still holds buffers of theirs */
  int64_t embedding_bytes;
  int64_t peak_embedding_bytes;
  int64_t pixel_bytes;
  int64_t peak_pixel_bytes;
  int64_t units_in_flight;
  int64_t kv_blocks_used;
  int64_t peak_kv_blocks_used;
  int64_t input_bytes;
  int64_t encode_batches;
  int64_t encoded_units;
  int64_t encoded_tokens;
  int64_t micro_batches;
  int64_t prefilled_tokens;
  int64_t accepted;
  int64_t finished;
  int64_t failed;
  int64_t cancelled;
  int64_t refused;      /* submits that were not accepted */
  int64_t stale_tokens; /* completions of unknown or completed actions */
  /* Of the embedding cache, since the create. A unit is a picture or a temporal patch. */
  int64_t cache_hits;      /* units whose embedding was there: neither decoded nor encoded */
  int64_t cache_shared;    /* units that another open request was preparing or encoding */
  int64_t cache_misses;    /* units that were encoded */
  int64_t cache_evictions; /* embeddings dropped for room */
  int64_t cache_bytes;
  int64_t peak_cache_bytes;
  /* Of KV reuse, since the create. */
  int64_t reused_tokens;    /* prompt tokens that were not prefilled: others had written their KV */
  int64_t kv_blocks_cached; /* in use by nobody and kept for reuse; not among kv_blocks_used */
  int64_t kv_evictions;     /* kept blocks whose room was needed */
} rserve_stats;

#define RSERVE_STATS_INIT                                                                         \
  {                                                                                               \
    sizeof(rserve_stats), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, \
        0, 0, 0, 0, 0, 0, 0                                                                       \
  }

/** A recent copy of the counters. @param stats Out, written up to its struct_size.
 *  [any-thread] @since 0.1 */
RSERVE_API rserve_status_t rserve_engine_get_stats(const rserve_engine *engine, rserve_stats *stats,
                                                   rserve_error **err);

#ifdef __cplusplus
}
#endif

#endif /* RSERVE_STATS_H_ */
