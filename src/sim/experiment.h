// Runs over several seeds, and the tables that are made of them: the paper's acceptance bands and
// the comparisons of the adaptive scheme.

#ifndef RSERVE_SRC_SIM_EXPERIMENT_H_
#define RSERVE_SRC_SIM_EXPERIMENT_H_

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "src/sim/bounds.h"
#include "src/sim/simulator.h"
#include "src/sim/summary.h"
#include "src/sim/workload.h"

namespace rserve::sim {

// The mean over the seeds of each number.
struct Point {
  double rate = 0;
  Summary summary;
  Bounds bounds;
};

// Runs `spec` with each seed. The requests are the same at every rate.
absl::StatusOr<Point> Measure(const SimConfig& config, WorkloadSpec spec,
                              const std::vector<uint64_t>& seeds);
// The same for requests that were recorded. Its rate is theirs.
absl::StatusOr<Point> MeasureRequests(const SimConfig& config,
                                      const std::vector<SimRequest>& requests);

// Requests a second that the configuration serves when three times as many come as its busiest
// device could serve.
absl::StatusOr<double> Capacity(const SimConfig& config, WorkloadSpec spec,
                                const std::vector<uint64_t>& seeds);

// Qwen2.5-VL-72B on H100s unless told otherwise. The names must be known and fit together.
SimConfig MakeConfig(std::string_view scheme, std::string_view layout, std::string_view calibration,
                     std::string_view model = "72b", std::string_view hardware = "h100");

// The split with a thin stage 0 that balances stage 0 and the encoder, which share a device, with
// the other stages, for requests like these. Empty when the layout is not of that kind.
std::vector<int64_t> BalancedLayers(const SimConfig& config, absl::Span<const SimRequest> requests);
std::vector<int64_t> BalancedLayers(const SimConfig& config, const WorkloadSpec& spec);

// One line of a table: a number, what it must be, and what the paper says.
struct Band {
  std::string what;
  std::string calibration;
  double value = 0;
  double low = 0;
  double high = 0;
  std::string paper;
  // To half a per cent, as the numbers of the paper are.
  bool holds() const { return value >= low - 0.005 && value <= high + 0.005; }
};

using ProgressFn = std::function<void(int64_t done, int64_t total)>;

// What must hold under both calibrations (shares, not per cent; -0.25 is 25 % less).
std::vector<Band> PaperBands(const ProgressFn& progress);
// The adaptive scheme against the paper's and against a co-located pipeline on as many devices.
std::vector<Band> AdaptiveBands(const ProgressFn& progress);
// The adaptive scheme against the best fixed C, B and order of a sweep, scenario by scenario.
std::vector<Band> ScenarioBands(const ProgressFn& progress);

// Mean and p99 of the adaptive scheme by order_stretch: what shortest-first buys and costs.
struct StretchPoint {
  int64_t stretch = 0;
  std::string layout;
  std::string workload;
  double load = 0;
  double mean_s = 0;
  double p99_s = 0;
  double rserve_mean_s = 0;
  double rserve_p99_s = 0;
};
std::vector<StretchPoint> StretchCurve(const ProgressFn& progress);

}  // namespace rserve::sim

#endif  // RSERVE_SRC_SIM_EXPERIMENT_H_
