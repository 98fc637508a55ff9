// The shapes of the published Qwen2.5-VL models, and the tensors of a checkpoint of a given shape.

#ifndef RSERVE_TOOLS_RSERVE_MODEL_SHAPES_H_
#define RSERVE_TOOLS_RSERVE_MODEL_SHAPES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "src/model/spec/model_config.h"

namespace rserve::tool {

// "3b", "7b", "32b", "72b": architecture numbers of the checkpoint of that size. Token ids are
// those of the published tokenizer.
absl::StatusOr<model::ModelConfig> PresetConfig(absl::string_view name);

// Numbers that replace the preset's; 0: the preset's, or what follows from the others.
struct ShapeOverrides {
  int64_t layers = 0;
  int64_t hidden = 0;
  int64_t intermediate = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t vocab = 0;
  int64_t vision_layers = 0;
  int64_t vision_hidden = 0;
  int64_t vision_intermediate = 0;
  int64_t vision_heads = 0;
};
// Changes `config` and keeps it consistent: heads of the same width where the hidden size allows it
// (else of a smaller one), key-value heads in the same proportion, widths of the MLPs in
// proportion, M-RoPE sections that sum to half a head, full attention in every eighth vision block
// and the last. INVALID_ARGUMENT names the option whose value does not fit.
absl::Status ApplyOverrides(const ShapeOverrides& overrides, model::ModelConfig* config);

// How the values of a tensor are drawn.
enum class Init : int32_t { kNormal = 0, kOne = 1, kZero = 2 };

struct TensorPlan {
  std::string name;
  std::vector<int64_t> shape;
  Init init = Init::kNormal;
  float std = 0;  // kNormal
  int64_t elements() const;
};

// Every tensor of a checkpoint, named as in the published files. Matrices are scaled so that
// activations neither vanish nor blow up through the layers.
std::vector<TensorPlan> CheckpointTensors(const model::ModelConfig& config);

// config.json for the shape.
std::string ConfigJson(const model::ModelConfig& config);

}  // namespace rserve::tool

#endif  // RSERVE_TOOLS_RSERVE_MODEL_SHAPES_H_
