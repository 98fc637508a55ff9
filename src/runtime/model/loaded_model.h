// A checkpoint, ready to run: configuration, tokenizer and packed weights.

#ifndef RSERVE_SRC_RUNTIME_MODEL_LOADED_MODEL_H_
#define RSERVE_SRC_RUNTIME_MODEL_LOADED_MODEL_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "src/backend/cpu/cpu_model.h"
#include "src/model/model_folder.h"
#include "src/model/spec/checkpoint_template.h"
#include "src/model/spec/image_plan.h"
#include "src/model/spec/model_config.h"
#include "src/model/spec/tokenizer.h"

namespace rserve::runtime {

// Immutable.
struct LoadedModel {
  model::ModelConfig config;
  model::ImageProcessorConfig processor;
  std::unique_ptr<const model::Tokenizer> tokenizer;
  model::ChatRenderer chat;
  std::shared_ptr<const cpu::CpuModel> weights;
  int64_t load_ns = 0;
};

// Packs the folder's weights with `threads` threads and closes its files. Errors as CpuModel::Load.
// `progress` may be empty.
absl::StatusOr<LoadedModel> LoadModel(
    model::ModelFolder folder, int32_t threads, cpu::WeightFormat weights,
    const std::function<void(int64_t done_bytes, int64_t total_bytes)>& progress);

}  // namespace rserve::runtime

#endif  // RSERVE_SRC_RUNTIME_MODEL_LOADED_MODEL_H_
