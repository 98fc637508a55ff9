// The model's weights as the CPU backend holds them: packed matrices, f32 vectors.

#ifndef RSERVE_SRC_BACKEND_CPU_WEIGHTS_H_
#define RSERVE_SRC_BACKEND_CPU_WEIGHTS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/cpu/isa.h"
#include "kernels/gemm/gemm.h"
#include "src/backend/cpu/buffer.h"
#include "src/backend/cpu/cpu_model.h"
#include "src/backend/plan/shard.h"
#include "src/model/spec/model_config.h"

namespace rserve::cpu {

// y = x W^T + bias. Biases are empty where the layer has none.
struct Linear {
  kernels::PackedWeight weight;  // points into `storage`
  AlignedBytes storage;
  std::vector<float> bias;
  std::vector<float> bias_up;  // of a paired weight's up half

  // The arguments of the product of `m` rows.
  kernels::GemmArgs Args(int64_t m, const float* x, int64_t x_stride, float* y,
                         int64_t y_stride) const {
    kernels::GemmArgs args;
    args.weight = weight;
    args.m = m;
    args.x = x;
    args.x_stride = x_stride;
    args.y = y;
    args.y_stride = y_stride;
    args.bias = bias.empty() ? nullptr : bias.data();
    args.bias_up = bias_up.empty() ? nullptr : bias_up.data();
    if (weight.paired) args.activation = kernels::Activation::kSwiglu;
    return args;
  }
};

struct VisionBlock {
  std::vector<float> norm1;
  Linear qkv;
  Linear proj;
  std::vector<float> norm2;
  Linear gate_up;  // paired
  Linear down;
};

struct VisionWeights {
  Linear patch_embed;
  std::vector<VisionBlock> blocks;
  std::vector<float> merger_norm;
  Linear merger_fc1;
  Linear merger_fc2;
};

struct TextLayer {
  std::vector<float> input_norm;
  Linear qkv;  // rows of q, then k, then v
  Linear o;
  std::vector<float> post_norm;
  Linear gate_up;  // paired
  Linear down;
};

// Token embeddings as the checkpoint stores them.
struct TokenTable {
  AlignedBytes bytes;
  kernels::WeightType type = kernels::WeightType::kF32;
};

struct TextWeights {
  std::shared_ptr<const TokenTable> embedding;  // null when it is `head`, tied and whole
  std::vector<TextLayer> layers;
  std::vector<float> norm;
  Linear head;
};

class LoadedModel final : public CpuModel {
 public:
  LoadedModel(const model::ModelConfig& config, const LoadOptions& options,
              const kernels::KernelTable& isa)
      : config_(config),
        ranks_(options.ranks),
        shard_(backend::ShardOf(config.text, options.rank, options.ranks)),
        isa_(isa) {}

  const model::ModelConfig& config() const override { return config_; }
  int64_t weight_bytes() const override { return weight_bytes_; }
  const kernels::KernelTable& isa() const { return isa_; }
  int32_t ranks() const { return ranks_; }
  const backend::TextShard& shard() const { return shard_; }  // what `text` holds

  // Widens the embedding of `token` (in range) into `out`, [hidden_size].
  void EmbedToken(int32_t token, float* out) const;

  VisionWeights vision;
  TextWeights text;
  int64_t weight_bytes_ = 0;

 private:
  const model::ModelConfig config_;
  const int32_t ranks_;
  const backend::TextShard shard_;
  const kernels::KernelTable& isa_;
};

// CpuModel::Load with the kernels of one instruction set; Load takes the best.
absl::StatusOr<std::shared_ptr<const CpuModel>> LoadForIsa(const model::ModelConfig& config,
                                                           const model::Checkpoint& checkpoint,
                                                           const LoadOptions& options,
                                                           const kernels::KernelTable& isa);

}  // namespace rserve::cpu

#endif  // RSERVE_SRC_BACKEND_CPU_WEIGHTS_H_
