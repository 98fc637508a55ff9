// Which layers a stage has, and which cores and threads a worker.

#ifndef RSERVE_SRC_RUNTIME_MODEL_PLACEMENT_H_
#define RSERVE_SRC_RUNTIME_MODEL_PLACEMENT_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "rserve/cc/model_engine.h"

namespace rserve::runtime {

// The cores that this process may run on, ascending; never empty.
std::vector<int> UsableCores();

// First layer and number of layers of each stage. INVALID_ARGUMENT names `stages` or
// `stage_layers`: fewer layers than stages, a stage without layers, a sum that is not the model's.
struct StageLayers {
  int32_t first = 0;
  int32_t count = 0;
};
absl::StatusOr<std::vector<StageLayers>> SplitLayers(const ModelEngineOptions& options,
                                                     int32_t num_layers);

// Workers with their cores, threads and devices, as ModelEngineOptions says, from `usable` cores.
// INVALID_ARGUMENT names the option: a list of another length than there are workers, a core that
// is not usable, a number of threads below 1 or above 1024, a device below 0, ranks of a stage that
// share one.
absl::StatusOr<std::vector<WorkerInfo>> PlaceWorkers(const ModelEngineOptions& options,
                                                     absl::Span<const StageLayers> layers,
                                                     absl::Span<const int> usable);

}  // namespace rserve::runtime

#endif  // RSERVE_SRC_RUNTIME_MODEL_PLACEMENT_H_
