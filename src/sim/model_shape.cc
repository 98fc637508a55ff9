#include "src/sim/model_shape.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace rserve::sim {
namespace {

ModelShape Make(const char* name, int64_t layers, int64_t hidden, int64_t heads, int64_t kv_heads,
                int64_t intermediate, int64_t vocabulary, int64_t vision_intermediate) {
  ModelShape shape;
  shape.name = name;
  shape.language = {layers, hidden, heads, kv_heads, 128, intermediate, vocabulary};
  shape.vision.intermediate = vision_intermediate;
  shape.vision.output = hidden;
  return shape;
}

}  // namespace

const std::vector<ModelShape>& ModelShapes() {
  static const auto& shapes = *new std::vector<ModelShape>{
      Make("3b", 36, 2048, 16, 2, 11008, 151936, 3420),
      Make("7b", 28, 3584, 28, 4, 18944, 152064, 3420),
      Make("32b", 64, 5120, 40, 8, 27648, 152064, 3456),
      Make("72b", 80, 8192, 64, 8, 29568, 152064, 3456),
  };
  return shapes;
}

absl::StatusOr<ModelShape> FindModelShape(std::string_view name) {
  std::string known;
  for (const ModelShape& shape : ModelShapes()) {
    if (shape.name == name) return shape;
    absl::StrAppend(&known, known.empty() ? "" : ", ", shape.name);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("model is \"", std::string(name), "\"; known are ", known));
}

int64_t MatmulParams(const LanguageShape& s) {
  const int64_t attention =
      2 * s.hidden * s.heads * s.head_dim + 2 * s.hidden * s.kv_heads * s.head_dim;
  return s.layers * (attention + 3 * s.hidden * s.intermediate);
}

double LinearFlops(const LanguageShape& s, int64_t tokens) {
  return 2.0 * static_cast<double>(MatmulParams(s)) * static_cast<double>(tokens);
}

double AttentionFlops(const LanguageShape& s, int64_t tokens, int64_t past) {
  const double pairs =
      static_cast<double>(tokens) * (static_cast<double>(past) + (tokens + 1) / 2.0);
  return 4.0 * static_cast<double>(s.layers * s.heads * s.head_dim) * pairs;
}

int64_t KvBytesPerToken(const LanguageShape& s) {
  return 2 * s.layers * s.kv_heads * s.head_dim * 2;
}

int64_t EmbeddingBytesPerToken(const LanguageShape& s) { return s.hidden * 2; }

double EncodeFlops(const VisionShape& s, int64_t tokens) {
  const double n = static_cast<double>(tokens * s.patches_per_token);
  const double h = static_cast<double>(s.hidden);
  const double merged = h * static_cast<double>(s.patches_per_token);
  const double block = 4 * h * h + 3 * h * static_cast<double>(s.intermediate);
  const double products = n * 2 * (static_cast<double>(s.depth) * block + s.patch_input * h);
  const double merger =
      static_cast<double>(tokens) * 2 * (merged * merged + merged * static_cast<double>(s.output));
  const double window = std::min(n, static_cast<double>(s.window_patches));
  const double windowed = static_cast<double>(s.depth - s.full_attention_blocks) * n * window;
  const double full = static_cast<double>(s.full_attention_blocks) * n * n;
  return products + merger + 4 * h * (windowed + full);
}

}  // namespace rserve::sim
