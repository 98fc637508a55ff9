// Shapes of the Qwen2.5-VL models, and the work that a token or a picture costs with them.

#ifndef RSERVE_SRC_SIM_MODEL_SHAPE_H_
#define RSERVE_SRC_SIM_MODEL_SHAPE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace rserve::sim {

struct LanguageShape {
  int64_t layers = 0;
  int64_t hidden = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  int64_t intermediate = 0;
  int64_t vocabulary = 0;
};

struct VisionShape {
  int64_t depth = 32;
  int64_t hidden = 1280;
  int64_t intermediate = 0;
  int64_t patch_input = 1176;         // numbers of one patch: 3 colours, 2 frames, 14 x 14
  int64_t patches_per_token = 4;      // merged 2 x 2
  int64_t window_patches = 64;        // of a block with window attention
  int64_t full_attention_blocks = 4;  // the others attend inside windows
  int64_t output = 0;                 // the language model's hidden size
};

struct ModelShape {
  std::string name;
  LanguageShape language;
  VisionShape vision;
};

// "3b", "7b", "32b", "72b".
absl::StatusOr<ModelShape> FindModelShape(std::string_view name);
const std::vector<ModelShape>& ModelShapes();

// Parameters of the matrix products of all layers; no embedding, no output head.
int64_t MatmulParams(const LanguageShape& shape);
// Operations of the matrix products of `tokens` tokens in all layers.
double LinearFlops(const LanguageShape& shape, int64_t tokens);
// Operations of causal attention of `tokens` tokens behind `past` cached ones, in all layers.
double AttentionFlops(const LanguageShape& shape, int64_t tokens, int64_t past);
// Bytes of keys and values a token leaves in all layers, in 16-bit numbers.
int64_t KvBytesPerToken(const LanguageShape& shape);
// Bytes of one token's embedding, in 16-bit numbers.
int64_t EmbeddingBytesPerToken(const LanguageShape& shape);
// Operations of encoding one picture of `tokens` tokens, the merger included.
double EncodeFlops(const VisionShape& shape, int64_t tokens);

}  // namespace rserve::sim

#endif  // RSERVE_SRC_SIM_MODEL_SHAPE_H_
