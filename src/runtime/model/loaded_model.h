// A checkpoint, ready to run: configuration, tokenizer and the backend with its weights.

#ifndef RSERVE_SRC_RUNTIME_MODEL_LOADED_MODEL_H_
#define RSERVE_SRC_RUNTIME_MODEL_LOADED_MODEL_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "rserve/cc/model_engine.h"
#include "src/model/model_folder.h"
#include "src/model/spec/checkpoint_template.h"
#include "src/model/spec/image_plan.h"
#include "src/model/spec/model_config.h"
#include "src/model/spec/tokenizer.h"
#include "src/runtime/model/backend_set.h"
#include "src/runtime/model/engine_config.h"

namespace rserve::runtime {

// Immutable but for the making of roles.
struct LoadedModel {
  model::ModelConfig config;
  model::ImageProcessorConfig processor;
  std::unique_ptr<const model::Tokenizer> tokenizer;
  model::ChatRenderer chat;
  std::unique_ptr<BackendSet> backend;
  int64_t load_ns = 0;
};

// Reads the folder's weights and closes its files; `config` as LoadBackend. Errors as LoadBackend.
absl::StatusOr<LoadedModel> LoadModel(model::ModelFolder folder, const ModelEngineOptions& options,
                                      EngineConfig* config);

}  // namespace rserve::runtime

#endif  // RSERVE_SRC_RUNTIME_MODEL_LOADED_MODEL_H_
