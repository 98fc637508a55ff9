#include "src/model/spec/model_config.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/model/json/json_fields.h"

namespace rserve::model {
namespace {

using nlohmann::json;

constexpr int64_t kMaxConfigBytes = int64_t{1} << 20;
constexpr int64_t kMaxLayers = 1024;
constexpr int64_t kMaxWidth = int64_t{1} << 20;
constexpr int64_t kMaxHeads = 4096;
constexpr int64_t kMaxVocab = int64_t{1} << 24;
constexpr int64_t kMaxTokenId = int64_t{1} << 30;

// What transformers assumes where a file leaves the token ids out.
constexpr int32_t kDefaultImageToken = 151655;
constexpr int32_t kDefaultVideoToken = 151656;
constexpr int32_t kDefaultVisionStart = 151652;
constexpr int32_t kDefaultVisionEnd = 151653;

absl::Status ParseVision(const json& object, VisionConfig* vision) {
  FieldReader in(object, "vision_config");
  vision->fullatt_block_indexes = {7, 15, 23, 31};
  in.Int("depth", 1, kMaxLayers, &vision->depth);
  in.Int("hidden_size", 1, kMaxWidth, &vision->hidden_size, Presence::kRequired);
  in.Int("intermediate_size", 1, kMaxWidth, &vision->intermediate_size);
  in.Int("num_heads", 1, kMaxHeads, &vision->num_heads);
  // The published files write in_chans, which the reference ignores; both can only say 3.
  in.Int("in_chans", 1, 16, &vision->in_channels);
  in.Int("in_channels", 1, 16, &vision->in_channels);
  in.Int("patch_size", 1, 256, &vision->patch_size);
  in.Int("temporal_patch_size", 1, 16, &vision->temporal_patch_size);
  in.Int("spatial_merge_size", 1, 16, &vision->spatial_merge_size);
  in.Int("window_size", 1, 65536, &vision->window_size);
  in.Int("out_hidden_size", 1, kMaxWidth, &vision->out_hidden_size, Presence::kRequired);
  in.Float("tokens_per_second", 0.0, 1e6, &vision->tokens_per_second);
  in.String("hidden_act", &vision->hidden_act);
  in.IntList("fullatt_block_indexes", kMaxLayers, 0, kMaxTokenId, &vision->fullatt_block_indexes);
  if (!in.ok()) return in.status();

  if (vision->in_channels != 3) in.Fail("in_channels", "images have 3 channels");
  if (vision->hidden_size % vision->num_heads != 0) {
    in.Fail("hidden_size", absl::StrCat("not a multiple of num_heads ", vision->num_heads));
  }
  // Half the head's values turn with the row of a patch, half with its column, in pairs.
  if (vision->head_dim() % 4 != 0) {
    in.Fail("hidden_size", absl::StrCat("head width ", vision->head_dim(),
                                        " is not a multiple of 4, as 2-D rotation needs"));
  }
  if (vision->window_size < vision->factor()) {
    in.Fail("window_size", absl::StrCat("smaller than one token of ", vision->factor(), " pixels"));
  }
  if (vision->hidden_act != "silu") in.Fail("hidden_act", "only silu is known");
  if (!in.ok()) return in.status();

  // transformers writes its default indexes also for shallower towers, where those past the end
  // name no block.
  auto& blocks = vision->fullatt_block_indexes;
  std::sort(blocks.begin(), blocks.end());
  blocks.erase(std::unique(blocks.begin(), blocks.end()), blocks.end());
  std::erase_if(blocks, [vision](int32_t block) { return block >= vision->depth; });
  return absl::OkStatus();
}

// `rope_parameters` (newer) or `rope_scaling` (older) with the theta inside or beside it.
absl::Status ParseRope(FieldReader& in, TextConfig* text) {
  double theta = text->rope_theta;
  in.Float("rope_theta", 1.0, 1e12, &theta);
  const char* key = in.Has("rope_parameters") ? "rope_parameters" : "rope_scaling";
  const json* rope = in.Find(key);
  if (rope == nullptr) in.Fail(key, "mrope_section has no default");
  if (!in.ok()) return in.status();

  FieldReader rope_in(*rope, key);
  std::string type;
  rope_in.String("type", &type);
  rope_in.String("rope_type", &type);
  rope_in.Float("rope_theta", 1.0, 1e12, &theta);
  rope_in.IntList("mrope_section", 3, 1, kMaxWidth, &text->mrope_section, Presence::kRequired);
  if (!rope_in.ok()) return rope_in.status();
  if (type != "mrope" && type != "default" && !type.empty()) {
    return absl::UnimplementedError(
        absl::StrCat(key, ".rope_type \"", type, "\" is not supported, only mrope"));
  }
  int64_t sum = 0;
  for (const int32_t section : text->mrope_section) sum += section;
  if (text->mrope_section.size() != 3 || sum * 2 != text->head_dim) {
    rope_in.Fail("mrope_section", absl::StrCat("want three numbers that sum to head_dim / 2 = ",
                                               text->head_dim / 2));
    return rope_in.status();
  }
  text->rope_theta = static_cast<float>(theta);
  return absl::OkStatus();
}

absl::Status ParseText(const json& object, const char* where, TextConfig* text) {
  FieldReader in(object, where);
  in.Int("vocab_size", 1, kMaxVocab, &text->vocab_size, Presence::kRequired);
  in.Int("hidden_size", 1, kMaxWidth, &text->hidden_size, Presence::kRequired);
  in.Int("intermediate_size", 1, kMaxWidth, &text->intermediate_size, Presence::kRequired);
  in.Int("num_hidden_layers", 1, kMaxLayers, &text->num_layers, Presence::kRequired);
  in.Int("num_attention_heads", 1, kMaxHeads, &text->num_heads, Presence::kRequired);
  text->num_kv_heads = text->num_heads;
  in.Int("num_key_value_heads", 1, kMaxHeads, &text->num_kv_heads);
  in.Int("max_position_embeddings", 1, kMaxTokenId, &text->max_position_embeddings);
  in.Float("rms_norm_eps", 1e-12, 1.0, &text->rms_norm_eps, Presence::kRequired);
  in.Bool("tie_word_embeddings", &text->tie_word_embeddings);
  std::string act = "silu";
  in.String("hidden_act", &act);
  bool sliding = false;
  in.Bool("use_sliding_window", &sliding);
  if (!in.ok()) return in.status();

  if (text->hidden_size % text->num_heads != 0 && !in.Has("head_dim")) {
    in.Fail("hidden_size", absl::StrCat("not a multiple of num_attention_heads ", text->num_heads));
  }
  text->head_dim = text->hidden_size / text->num_heads;
  in.Int("head_dim", 2, 4096, &text->head_dim);
  if (!in.ok()) return in.status();
  if (text->head_dim < 2 || text->head_dim % 2 != 0) {
    in.Fail("hidden_size",
            absl::StrCat("head width ", text->head_dim, " is odd, rotation needs pairs"));
  }
  if (text->num_heads % text->num_kv_heads != 0) {
    in.Fail("num_key_value_heads",
            absl::StrCat("does not divide num_attention_heads ", text->num_heads));
  }
  if (act != "silu") in.Fail("hidden_act", "only silu is known");
  if (sliding) in.Fail("use_sliding_window", "sliding-window attention is not supported");
  if (const json* types = in.Find("layer_types")) {
    const bool full = types->is_array() && std::all_of(types->begin(), types->end(), [](auto& t) {
                        return t == "full_attention";
                      });
    if (!full) in.Fail("layer_types", "only full_attention is supported");
  }
  if (!in.ok()) return in.status();
  return ParseRope(in, text);
}

// A number or a list of numbers, of which the first counts; -1 when there is none in the vocabulary
// (transformers writes its default of 151645 whatever the vocabulary is).
absl::Status ParseEos(const FieldReader& top, const FieldReader& text, ModelConfig* config) {
  const json* value = top.Find("eos_token_id");
  if (value == nullptr) value = text.Find("eos_token_id");
  if (value == nullptr) return absl::OkStatus();
  const json& first = value->is_array() && !value->empty() ? value->front() : *value;
  if (!first.is_number_integer()) {
    return absl::InvalidArgumentError(
        absl::StrCat("eos_token_id is ", Describe(*value), ", want an integer or a list of them"));
  }
  if (first >= 0 && first < config->text.vocab_size) config->eos_token_id = first.get<int32_t>();
  return absl::OkStatus();
}

absl::Status ParseTokenIds(FieldReader& in, ModelConfig* config) {
  config->image_token_id = kDefaultImageToken;
  config->video_token_id = kDefaultVideoToken;
  config->vision_start_token_id = kDefaultVisionStart;
  config->vision_end_token_id = kDefaultVisionEnd;
  in.Int("image_token_id", 0, kMaxTokenId, &config->image_token_id);
  in.Int("video_token_id", 0, kMaxTokenId, &config->video_token_id);
  in.Int("vision_start_token_id", 0, kMaxTokenId, &config->vision_start_token_id);
  in.Int("vision_end_token_id", 0, kMaxTokenId, &config->vision_end_token_id);
  const int32_t vocab = config->text.vocab_size;
  const auto check = [&](const char* key, int32_t id) {
    if (id >= vocab) in.Fail(key, absl::StrCat(id, " is not below vocab_size ", vocab));
  };
  check("image_token_id", config->image_token_id);
  check("vision_start_token_id", config->vision_start_token_id);
  check("vision_end_token_id", config->vision_end_token_id);
  if (config->video_token_id >= vocab) config->video_token_id = -1;
  return in.status();
}

}  // namespace

absl::StatusOr<ModelConfig> ParseModelConfig(std::string_view json_text) {
  absl::StatusOr<json> parsed = ParseJson(json_text, "config.json", kMaxConfigBytes);
  if (!parsed.ok()) return parsed.status();
  ModelConfig config;
  FieldReader top(*parsed, "config.json");
  top.String("model_type", &config.model_type, Presence::kRequired);
  if (!top.ok()) return top.status();
  if (config.model_type != "qwen2_5_vl") {
    return absl::UnimplementedError(absl::StrCat("model_type \"", config.model_type.substr(0, 64),
                                                 "\" is not supported, only qwen2_5_vl"));
  }
  const json* vision = top.Find("vision_config");
  if (vision == nullptr) top.Fail("vision_config", "it has no default");
  if (!top.ok()) return top.status();

  const json* nested = top.Find("text_config");
  const json& text = nested == nullptr ? *parsed : *nested;
  const char* where = nested == nullptr ? "config.json" : "text_config";
  absl::Status status = ParseText(text, where, &config.text);
  if (status.ok()) status = ParseVision(*vision, &config.vision);
  if (status.ok()) status = ParseTokenIds(top, &config);
  if (status.ok()) status = ParseEos(top, FieldReader(text, where), &config);
  if (!status.ok()) return status;

  // Either place may tie the embeddings, as in the reference.
  bool tied = false;
  top.Bool("tie_word_embeddings", &tied);
  config.text.tie_word_embeddings |= tied;
  FieldReader text_in(text, where);
  text_in.String("torch_dtype", &config.torch_dtype);
  text_in.String("dtype", &config.torch_dtype);
  top.String("torch_dtype", &config.torch_dtype);
  top.String("dtype", &config.torch_dtype);
  if (!text_in.ok()) return text_in.status();
  if (!top.ok()) return top.status();
  if (config.vision.out_hidden_size != config.text.hidden_size) {
    return absl::InvalidArgumentError(absl::StrCat("vision_config.out_hidden_size is ",
                                                   config.vision.out_hidden_size, ": not ", where,
                                                   ".hidden_size ", config.text.hidden_size));
  }
  return config;
}

}  // namespace rserve::model
