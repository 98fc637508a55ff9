// What no policy can beat on a layout, so that a reader sees how far a result is from the best.
//
// Every request must pass every device. Taken alone, a device is a single machine whose jobs are
// released on arrival; what comes before and after it is left out but for the shortest possible
// remainder. On a single machine no order has a smaller mean than shortest remaining first.

#ifndef RSERVE_SRC_SIM_BOUNDS_H_
#define RSERVE_SRC_SIM_BOUNDS_H_

#include <functional>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "src/sim/simulator.h"
#include "src/sim/workload.h"

namespace rserve::sim {

struct Bounds {
  double critical_path_s = 0;  // mean TTFT if every request had the machine to itself
  double fcfs_s = 0;           // mean TTFT of the busiest device, served in order of arrival
  double shortest_s = 0;       // the same, shortest remaining first: no policy is below
  double tokens_per_s = 0;     // the busiest device never idle
};

// Costs are those of micro-batches of up to 8192 tokens and of encode batches of a whole request.
Bounds ComputeBounds(const SimConfig& config, absl::Span<const SimRequest> requests);
// The same for requests that are made anew, one after another, whenever they are asked for, so that
// a long run holds 16 bytes of each.
Bounds ComputeBounds(const SimConfig& config,
                     const std::function<std::unique_ptr<RequestSource>()>& requests);

// Mean time from release to completion on one machine, in nanoseconds.
struct Job {
  TimeNs release_ns = 0;
  TimeNs work_ns = 0;
};
double MeanFlowFcfs(absl::Span<const Job> jobs);      // jobs in order of release
double MeanFlowShortest(absl::Span<const Job> jobs);  // preemptive; jobs in order of release

}  // namespace rserve::sim

#endif  // RSERVE_SRC_SIM_BOUNDS_H_
