#include "tools/rserve/model_shapes.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

namespace rserve::tool {
namespace {

struct Preset {
  absl::string_view name;
  int32_t layers, hidden, heads, kv_heads, intermediate, vocab, vision_intermediate;
  bool tied;
};

constexpr Preset kPresets[] = {
    {"3b", 36, 2048, 16, 2, 11008, 151936, 3420, true},
    {"7b", 28, 3584, 28, 4, 18944, 152064, 3420, false},
    {"32b", 64, 5120, 40, 8, 27648, 152064, 3456, false},
    {"72b", 80, 8192, 64, 8, 29568, 152064, 3456, false},
};

constexpr int32_t kFullAttentionEvery = 8;

int32_t Override(int64_t value, int32_t otherwise) {
  return value > 0 ? static_cast<int32_t>(value) : otherwise;
}

// `value` scaled by new / old, rounded to a multiple of `step`, at least one step.
int32_t Scale(int32_t value, int32_t now, int32_t before, int32_t step) {
  const double scaled = static_cast<double>(value) * now / before;
  return std::max(step, static_cast<int32_t>(std::lround(scaled / step)) * step);
}

// The widest head that divides `hidden`: the usual one or a power of two below it.
int32_t HeadDim(int32_t hidden, int32_t usual) {
  if (hidden % usual == 0) return usual;
  for (int32_t width = 64; width >= 16; width /= 2) {
    if (width < usual && hidden % width == 0) return width;
  }
  return 0;
}

absl::Status Misfit(absl::string_view option, int64_t value, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("--", option, ": ", value, " ", why));
}

absl::Status OverrideText(const ShapeOverrides& o, model::TextConfig* text) {
  const model::TextConfig before = *text;
  text->num_layers = Override(o.layers, text->num_layers);
  text->hidden_size = Override(o.hidden, text->hidden_size);
  text->vocab_size = Override(o.vocab, text->vocab_size);
  const int32_t usual = HeadDim(text->hidden_size, before.head_dim);
  if (o.heads == 0 && usual == 0) {
    return Misfit("hidden", text->hidden_size, "is not a multiple of 16");
  }
  text->num_heads = o.heads > 0 ? static_cast<int32_t>(o.heads) : text->hidden_size / usual;
  if (text->hidden_size % text->num_heads != 0 || (text->hidden_size / text->num_heads) % 16 != 0) {
    return Misfit("heads", text->num_heads,
                  absl::StrCat("does not divide the hidden size ", text->hidden_size,
                               " into heads of a multiple of 16"));
  }
  text->head_dim = text->hidden_size / text->num_heads;
  text->num_kv_heads =
      Override(o.kv_heads, std::max(1, text->num_heads * before.num_kv_heads / before.num_heads));
  while (o.kv_heads == 0 && text->num_heads % text->num_kv_heads != 0) --text->num_kv_heads;
  if (text->num_heads % text->num_kv_heads != 0) {
    return Misfit("kv-heads", text->num_kv_heads,
                  absl::StrCat("does not divide the ", text->num_heads, " heads"));
  }
  text->intermediate_size = Override(
      o.intermediate, Scale(before.intermediate_size, text->hidden_size, before.hidden_size, 16));
  const int32_t eighth = text->head_dim / 8;
  text->mrope_section = {eighth, text->head_dim * 3 / 16, text->head_dim * 3 / 16};
  return absl::OkStatus();
}

absl::Status OverrideVision(const ShapeOverrides& o, int32_t out_hidden,
                            model::VisionConfig* vision) {
  const model::VisionConfig before = *vision;
  vision->depth = Override(o.vision_layers, vision->depth);
  vision->hidden_size = Override(o.vision_hidden, vision->hidden_size);
  const int32_t usual = HeadDim(vision->hidden_size, before.head_dim());
  if (o.vision_heads == 0 && usual == 0) {
    return Misfit("vision-hidden", vision->hidden_size, "is not a multiple of 16");
  }
  vision->num_heads =
      o.vision_heads > 0 ? static_cast<int32_t>(o.vision_heads) : vision->hidden_size / usual;
  if (vision->hidden_size % vision->num_heads != 0 || vision->head_dim() % 4 != 0) {
    return Misfit("vision-heads", vision->num_heads,
                  absl::StrCat("does not divide the vision hidden size ", vision->hidden_size,
                               " into heads of a multiple of 4"));
  }
  vision->intermediate_size =
      Override(o.vision_intermediate,
               Scale(before.intermediate_size, vision->hidden_size, before.hidden_size, 4));
  vision->fullatt_block_indexes.clear();
  for (int32_t block = 0; block < vision->depth; ++block) {
    if (block % kFullAttentionEvery == kFullAttentionEvery - 1 || block == vision->depth - 1) {
      vision->fullatt_block_indexes.push_back(block);
    }
  }
  vision->out_hidden_size = out_hidden;
  return absl::OkStatus();
}

// Collects tensors under a prefix.
class TensorList {
 public:
  // A product's weight [out][in], scaled by 1 / sqrt(in); `gain` makes it smaller still.
  void Linear(const std::string& name, int64_t out, int64_t in, bool bias, float gain = 1) {
    Add(name + ".weight", {out, in}, Init::kNormal, gain / std::sqrt(static_cast<float>(in)));
    if (bias) Add(name + ".bias", {out}, Init::kNormal, 0.01f);
  }
  void Norm(const std::string& name, int64_t width) { Add(name, {width}, Init::kOne, 0); }
  void Add(std::string name, std::vector<int64_t> shape, Init init, float std) {
    tensors_.push_back({std::move(name), std::move(shape), init, std});
  }
  std::vector<TensorPlan> Take() { return std::move(tensors_); }

 private:
  std::vector<TensorPlan> tensors_;
};

// Products that write into the residual stream: the sum over all layers keeps the scale of one.
float ResidualGain(int32_t layers) { return 1 / std::sqrt(2 * static_cast<float>(layers)); }

void AddVision(const model::VisionConfig& vision, TensorList* list) {
  const int64_t hidden = vision.hidden_size;
  list->Add("visual.patch_embed.proj.weight",
            {hidden, vision.in_channels, vision.temporal_patch_size, vision.patch_size,
             vision.patch_size},
            Init::kNormal, 1 / std::sqrt(static_cast<float>(vision.patch_dim())));
  const float gain = ResidualGain(vision.depth);
  for (int32_t i = 0; i < vision.depth; ++i) {
    const std::string block = absl::StrCat("visual.blocks.", i, ".");
    list->Norm(block + "norm1.weight", hidden);
    list->Norm(block + "norm2.weight", hidden);
    list->Linear(block + "attn.qkv", 3 * hidden, hidden, true);
    list->Linear(block + "attn.proj", hidden, hidden, true, gain);
    list->Linear(block + "mlp.gate_proj", vision.intermediate_size, hidden, true);
    list->Linear(block + "mlp.up_proj", vision.intermediate_size, hidden, true);
    list->Linear(block + "mlp.down_proj", hidden, vision.intermediate_size, true, gain);
  }
  const int64_t merged = hidden * vision.merge_unit();
  list->Norm("visual.merger.ln_q.weight", hidden);
  list->Linear("visual.merger.mlp.0", merged, merged, true);
  list->Linear("visual.merger.mlp.2", vision.out_hidden_size, merged, true);
}

void AddText(const model::TextConfig& text, TensorList* list) {
  const int64_t hidden = text.hidden_size;
  const int64_t query = int64_t{text.num_heads} * text.head_dim;
  const int64_t key = int64_t{text.num_kv_heads} * text.head_dim;
  list->Add("model.embed_tokens.weight", {text.vocab_size, hidden}, Init::kNormal,
            1 / std::sqrt(static_cast<float>(hidden)));
  const float gain = ResidualGain(text.num_layers);
  for (int32_t i = 0; i < text.num_layers; ++i) {
    const std::string layer = absl::StrCat("model.layers.", i, ".");
    list->Norm(layer + "input_layernorm.weight", hidden);
    list->Norm(layer + "post_attention_layernorm.weight", hidden);
    list->Linear(layer + "self_attn.q_proj", query, hidden, true);
    list->Linear(layer + "self_attn.k_proj", key, hidden, true);
    list->Linear(layer + "self_attn.v_proj", key, hidden, true);
    list->Linear(layer + "self_attn.o_proj", hidden, query, false, gain);
    list->Linear(layer + "mlp.gate_proj", text.intermediate_size, hidden, false);
    list->Linear(layer + "mlp.up_proj", text.intermediate_size, hidden, false);
    list->Linear(layer + "mlp.down_proj", hidden, text.intermediate_size, false, gain);
  }
  list->Norm("model.norm.weight", hidden);
  if (!text.tie_word_embeddings) list->Linear("lm_head", text.vocab_size, hidden, false);
}

}  // namespace

int64_t TensorPlan::elements() const {
  int64_t product = 1;
  for (const int64_t extent : shape) product *= extent;
  return product;
}

absl::StatusOr<model::ModelConfig> PresetConfig(absl::string_view name) {
  for (const Preset& preset : kPresets) {
    if (preset.name != name) continue;
    model::ModelConfig config;
    config.model_type = "qwen2_5_vl";
    config.vision.intermediate_size = preset.vision_intermediate;
    config.vision.fullatt_block_indexes = {7, 15, 23, 31};
    config.vision.out_hidden_size = preset.hidden;
    config.text.vocab_size = preset.vocab;
    config.text.hidden_size = preset.hidden;
    config.text.intermediate_size = preset.intermediate;
    config.text.num_layers = preset.layers;
    config.text.num_heads = preset.heads;
    config.text.num_kv_heads = preset.kv_heads;
    config.text.head_dim = preset.hidden / preset.heads;
    config.text.mrope_section = {16, 24, 24};
    config.text.tie_word_embeddings = preset.tied;
    config.image_token_id = 151655;
    config.video_token_id = 151656;
    config.vision_start_token_id = 151652;
    config.vision_end_token_id = 151653;
    config.eos_token_id = 151645;
    return config;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("preset '", name, "' is unknown; known are 3b, 7b, 32b, 72b"));
}

absl::Status ApplyOverrides(const ShapeOverrides& overrides, model::ModelConfig* config) {
  if (absl::Status status = OverrideText(overrides, &config->text); !status.ok()) return status;
  return OverrideVision(overrides, config->text.hidden_size, &config->vision);
}

std::vector<TensorPlan> CheckpointTensors(const model::ModelConfig& config) {
  TensorList list;
  AddVision(config.vision, &list);
  AddText(config.text, &list);
  return list.Take();
}

std::string ConfigJson(const model::ModelConfig& config) {
  const model::VisionConfig& vision = config.vision;
  const model::TextConfig& text = config.text;
  const nlohmann::json json = {
      {"architectures", {"Qwen2_5_VLForConditionalGeneration"}},
      {"model_type", config.model_type},
      {"torch_dtype", config.torch_dtype},
      {"hidden_size", text.hidden_size},
      {"intermediate_size", text.intermediate_size},
      {"num_hidden_layers", text.num_layers},
      {"num_attention_heads", text.num_heads},
      {"num_key_value_heads", text.num_kv_heads},
      {"vocab_size", text.vocab_size},
      {"max_position_embeddings", text.max_position_embeddings},
      {"rms_norm_eps", text.rms_norm_eps},
      {"rope_theta", text.rope_theta},
      {"rope_scaling", {{"type", "mrope"}, {"mrope_section", text.mrope_section}}},
      {"hidden_act", "silu"},
      {"use_sliding_window", false},
      {"tie_word_embeddings", text.tie_word_embeddings},
      {"image_token_id", config.image_token_id},
      {"video_token_id", config.video_token_id},
      {"vision_start_token_id", config.vision_start_token_id},
      {"vision_end_token_id", config.vision_end_token_id},
      {"eos_token_id", config.eos_token_id},
      {"vision_config",
       {{"model_type", config.model_type},
        {"depth", vision.depth},
        {"hidden_size", vision.hidden_size},
        {"intermediate_size", vision.intermediate_size},
        {"num_heads", vision.num_heads},
        {"in_channels", vision.in_channels},
        {"patch_size", vision.patch_size},
        {"spatial_patch_size", vision.patch_size},
        {"temporal_patch_size", vision.temporal_patch_size},
        {"spatial_merge_size", vision.spatial_merge_size},
        {"window_size", vision.window_size},
        {"fullatt_block_indexes", vision.fullatt_block_indexes},
        {"out_hidden_size", vision.out_hidden_size},
        {"tokens_per_second", vision.tokens_per_second},
        {"hidden_act", vision.hidden_act}}}};
  return json.dump(2) + "\n";
}

}  // namespace rserve::tool
