#include "src/runtime/model/backend_set.h"

namespace rserve::runtime {

absl::StatusOr<std::unique_ptr<BackendSet>> LoadBackend(const model::ModelFolder& folder,
                                                        const ModelEngineOptions& options,
                                                        EngineConfig* config) {
  if (options.backend == Backend::kCuda) return LoadCudaBackend(folder, options, *config);
  return LoadCpuBackend(folder, options, config);
}

}  // namespace rserve::runtime
