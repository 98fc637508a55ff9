// From the options of a ModelEngine to the configuration of the core: defaults filled in, every
// number checked.

#ifndef RSERVE_SRC_RUNTIME_MODEL_ENGINE_CONFIG_H_
#define RSERVE_SRC_RUNTIME_MODEL_ENGINE_CONFIG_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rserve/cc/model_engine.h"
#include "rserve/cc/orchestrator.h"
#include "src/model/spec/image_plan.h"
#include "src/model/spec/model_config.h"
#include "src/runtime/model/request_planner.h"

namespace rserve::runtime {

// Checks what needs no model, so that a wrong option fails before the weights are read.
// INVALID_ARGUMENT names the option and its value.
absl::Status CheckOptions(const ModelEngineOptions& options);

struct EngineConfig {
  OrchestratorConfig core;
  PlanLimits limits;
  std::vector<WorkerInfo> workers;
  int64_t max_unacknowledged = 0;
  int64_t kv_bytes_per_token = 0;
  int32_t tensor_parallel = 1;
  Weights weights = Weights::kStored;
  bool kv_reuse = false;
  bool measure_encoders = false;  // an adaptive engine whose placement waits for the weights
  std::string placement_reason;   // of a placement that was measured, for the log
};

// Places workers on the process's cores and turns sizes into budgets. Errors as CheckOptions and
// PlaceWorkers; RESOURCE_EXHAUSTED for a KV cache that is larger than the machine's memory.
absl::StatusOr<EngineConfig> MakeEngineConfig(const ModelEngineOptions& options,
                                              const model::ModelConfig& model,
                                              const model::ImageProcessorConfig& processor);

// What a token's keys and values take in the caches of all stages and ranks.
int64_t KvBytesPerToken(const model::TextConfig& text, Backend backend);

// No micro-batch holds more: every token in the pipeline has its place in the KV cache.
int64_t MaxMicroBatchTokens(const OrchestratorConfig& core);

}  // namespace rserve::runtime

#endif  // RSERVE_SRC_RUNTIME_MODEL_ENGINE_CONFIG_H_
