#include "src/runtime/model/backend_set.h"

namespace rserve::runtime {

absl::StatusOr<std::unique_ptr<BackendSet>> LoadBackend(const model::ModelFolder& folder,
                                                        const ModelEngineOptions& options,
                                                        const EngineConfig& config) {
  if (options.backend == Backend::kCuda) return LoadCudaBackend(folder, options, config);
  return LoadCpuBackend(folder, config, options.load_progress);
}

}  // namespace rserve::runtime
