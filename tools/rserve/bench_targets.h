// The engines a bench measures: one with a checkpoint, one with a stand-in of known durations.

#ifndef RSERVE_TOOLS_RSERVE_BENCH_TARGETS_H_
#define RSERVE_TOOLS_RSERVE_BENCH_TARGETS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tools/rserve/bench_run.h"

namespace rserve::tool {

// `requests` is shared by all targets.
OpenTarget OpenModelTargets(std::string model, EngineFlags flags,
                            std::shared_ptr<const SyntheticRequests> requests);

// Durations of the stand-in, on every worker of a role.
struct TimedCosts {
  double encode_ms_per_item = 20;
  double stage_ms_per_chunk = 20;  // for a full micro-batch of B tokens; a smaller one its share...
  double stage_ms_fixed = 0;       // ...but never less than this
};
OpenTarget OpenTimedTargets(TimedCosts costs, EngineFlags flags, std::vector<RequestPlan> plans);

}  // namespace rserve::tool

#endif  // RSERVE_TOOLS_RSERVE_BENCH_TARGETS_H_
