// CudaModel as the roles see it.

#ifndef RSERVE_SRC_BACKEND_CUDA_LOADED_MODEL_H_
#define RSERVE_SRC_BACKEND_CUDA_LOADED_MODEL_H_

#include <cstdint>

#include "src/backend/cuda/cuda_model.h"
#include "src/backend/cuda/weights.h"
#include "src/backend/plan/shard.h"

namespace rserve::cuda {

using backend::Share;
using backend::TextShard;

class LoadedModel final : public CudaModel {
 public:
  LoadedModel(const model::ModelConfig& config, const LoadOptions& loaded, Device* device)
      : config_(config),
        loaded_(loaded),
        shard_(backend::ShardOf(config.text, loaded.rank, loaded.ranks)),
        device_(device) {}

  const model::ModelConfig& config() const override { return config_; }
  int64_t weight_bytes() const override { return bytes; }
  const LoadOptions& loaded() const { return loaded_; }
  const TextShard& shard() const { return shard_; }
  Device* device() const { return device_; }
  // A layer of the language model by its number in the whole model.
  const Block& layer(int32_t i) const {
    return text.layers[static_cast<size_t>(i - loaded_.layers.begin)];
  }

  VisionWeights vision;
  TextWeights text;
  int64_t bytes = 0;

 private:
  const model::ModelConfig config_;
  const LoadOptions loaded_;
  const TextShard shard_;
  Device* const device_;
};

}  // namespace rserve::cuda

#endif  // RSERVE_SRC_BACKEND_CUDA_LOADED_MODEL_H_
