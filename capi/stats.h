// Counters, from the C++ API's struct to the C struct.

#ifndef RSERVE_CAPI_STATS_H_
#define RSERVE_CAPI_STATS_H_

#include "rserve/cc/orchestrator.h"
#include "rserve/rserve.h"

namespace rserve::capi {

rserve_stats MakeStats(const OrchestratorStats& from, bool idle);

}  // namespace rserve::capi

#endif  // RSERVE_CAPI_STATS_H_
