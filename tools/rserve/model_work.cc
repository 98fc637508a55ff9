#include "tools/rserve/model_work.h"

#include <algorithm>
#include <vector>

#include "src/backend/plan/vision_plan.h"

namespace rserve::tool {
namespace {

// Pairs of query and key that attention looks at.
double Pairs(const std::vector<backend::Segment>& segments) {
  double pairs = 0;
  for (const backend::Segment& segment : segments) {
    pairs += static_cast<double>(segment.count) * static_cast<double>(segment.count);
  }
  return pairs;
}

}  // namespace

double EncodeFlop(const model::ModelConfig& config, const model::Grid& grid) {
  const model::VisionConfig& vision = config.vision;
  backend::VisionPlan plan;
  plan.Append(grid, 0, vision);
  const double patches = static_cast<double>(grid.patches());
  const double hidden = vision.hidden_size;
  const double merged = hidden * vision.merge_unit();
  const double cells = patches / vision.merge_unit();
  const double block = 2 * patches * hidden * (4 * hidden + 3.0 * vision.intermediate_size);
  double flop = 2 * patches * vision.patch_dim() * hidden + vision.depth * block +
                2 * cells * merged * (merged + vision.out_hidden_size);
  const auto& full = vision.fullatt_block_indexes;
  for (int32_t i = 0; i < vision.depth; ++i) {
    const bool whole = std::find(full.begin(), full.end(), i) != full.end();
    flop += 4 * Pairs(whole ? plan.frames : plan.windows) * hidden;
  }
  return flop;
}

double PrefillFlop(const model::ModelConfig& config, int64_t tokens) {
  const model::TextConfig& text = config.text;
  const double n = static_cast<double>(tokens);
  const double hidden = text.hidden_size;
  const double attention = static_cast<double>(text.num_heads) * text.head_dim;
  const double qkv = static_cast<double>(text.num_heads + 2 * text.num_kv_heads) * text.head_dim;
  const double layer = 2 * n * hidden * (qkv + attention + 3.0 * text.intermediate_size) +
                       4 * n * (n + 1) / 2 * attention;
  return text.num_layers * layer + 2 * hidden * text.vocab_size;
}

}  // namespace rserve::tool
