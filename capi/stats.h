// Counters, from the C++ API's struct to the C struct.

#ifndef RSERVE_CAPI_STATS_H_
#define RSERVE_CAPI_STATS_H_

#include <cstddef>

#include "rserve/cc/model_engine.h"
#include "rserve/cc/orchestrator.h"
#include "rserve/rserve.h"

namespace rserve::capi {

// Bytes of rserve_stats in its first version.
inline constexpr size_t kFirstStatsSize = offsetof(rserve_stats, cache_hits);

rserve_stats MakeStats(const OrchestratorStats& from, bool idle);
// Adds those of the embedding cache, which only engines of a checkpoint have.
void AddCacheStats(const EmbeddingCacheStats& from, rserve_stats* stats);

}  // namespace rserve::capi

#endif  // RSERVE_CAPI_STATS_H_
