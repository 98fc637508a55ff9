// BackendSet: the roles of an engine's workers, made from a checkpoint by the backend that was
// asked for. The one seam between the engine and what computes.

#ifndef RSERVE_SRC_RUNTIME_MODEL_BACKEND_SET_H_
#define RSERVE_SRC_RUNTIME_MODEL_BACKEND_SET_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "rserve/cc/model_engine.h"
#include "src/backend/backend.h"
#include "src/backend/plan/row_store.h"
#include "src/model/model_folder.h"
#include "src/runtime/model/engine_config.h"

namespace rserve::runtime {

// Holds weights, thread pools and devices: outlives the roles. Used by one thread.
class BackendSet {
 public:
  virtual ~BackendSet() = default;
  virtual int64_t weight_bytes() const = 0;
  // The role of a worker that has it, by the worker's number. Once a worker and role.
  virtual absl::StatusOr<std::unique_ptr<backend::EncoderBackend>> MakeEncoder(size_t worker) = 0;
  virtual absl::StatusOr<std::unique_ptr<backend::StageBackend>> MakeStage(size_t worker) = 0;
  // Rows of the backend's own memory, as many as the budget of embeddings, which its encoders write
  // and its first stage reads. Null: embeddings go through host memory.
  virtual backend::RowStore* embedding_rows() const { return nullptr; }
};

// Weights read and all weights; may be empty.
using LoadProgress = std::function<void(int64_t done_bytes, int64_t total_bytes)>;

// Reads the weights for the workers of `config`. With measure_encoders the placement is chosen once
// the weights are there, and `config` is made anew for it. Errors as the backend's Load;
// UNAVAILABLE with the reason when the backend is not there. The folder may be closed afterwards.
absl::StatusOr<std::unique_ptr<BackendSet>> LoadBackend(const model::ModelFolder& folder,
                                                        const ModelEngineOptions& options,
                                                        EngineConfig* config);

// One backend each.
absl::StatusOr<std::unique_ptr<BackendSet>> LoadCpuBackend(const model::ModelFolder& folder,
                                                           const ModelEngineOptions& options,
                                                           EngineConfig* config);
absl::StatusOr<std::unique_ptr<BackendSet>> LoadCudaBackend(const model::ModelFolder& folder,
                                                            const ModelEngineOptions& options,
                                                            const EngineConfig& config);

}  // namespace rserve::runtime

#endif  // RSERVE_SRC_RUNTIME_MODEL_BACKEND_SET_H_
