// The shape of a Qwen2.5-VL checkpoint: what config.json says, checked and with defaults filled in.
//
// Plain values only. Everything that needs a number of the architecture (planner, backends,
// simulator, tools) takes it from here; nobody else reads config.json.

#ifndef RSERVE_SRC_MODEL_SPEC_MODEL_CONFIG_H_
#define RSERVE_SRC_MODEL_SPEC_MODEL_CONFIG_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace rserve::model {

// The vision tower (patch embedding, blocks, merger).
struct VisionConfig {
  int32_t depth = 32;                // transformer blocks
  int32_t hidden_size = 1280;        // width of a block
  int32_t intermediate_size = 3420;  // SwiGLU width
  int32_t num_heads = 16;            // head_dim = hidden_size / num_heads
  int32_t in_channels = 3;
  int32_t patch_size = 14;                     // pixels a side of one patch
  int32_t temporal_patch_size = 2;             // frames of one patch (a still image is repeated)
  int32_t spatial_merge_size = 2;              // patches a side that make one language-model token
  int32_t window_size = 112;                   // pixels a side of one attention window
  std::vector<int32_t> fullatt_block_indexes;  // blocks that attend over the whole image
  int32_t out_hidden_size = 0;     // width of an embedding row; equals TextConfig::hidden_size
  float tokens_per_second = 4.0f;  // temporal M-RoPE positions a second of video
  float rms_norm_eps = 1e-6f;
  std::string hidden_act = "silu";  // activation of the SwiGLU gate

  int32_t head_dim() const { return hidden_size / num_heads; }
  // Pixels a side of one token: a resized image is a multiple of it in both directions.
  int32_t factor() const { return patch_size * spatial_merge_size; }
  // Values of one flattened patch row: channels * temporal * patch * patch.
  int32_t patch_dim() const { return in_channels * temporal_patch_size * patch_size * patch_size; }
  int32_t merge_unit() const { return spatial_merge_size * spatial_merge_size; }
};

// The language model.
struct TextConfig {
  int32_t vocab_size = 0;
  int32_t hidden_size = 0;
  int32_t intermediate_size = 0;
  int32_t num_layers = 0;
  int32_t num_heads = 0;
  int32_t num_kv_heads = 0;
  int32_t head_dim = 0;  // hidden_size / num_heads unless the file says otherwise
  int32_t max_position_embeddings = 32768;
  float rms_norm_eps = 1e-6f;
  float rope_theta = 1000000.0f;
  // Rotary frequencies given to the temporal, height and width axis; sums to head_dim / 2.
  std::vector<int32_t> mrope_section;
  bool tie_word_embeddings = false;
};

struct ModelConfig {
  std::string model_type;  // "qwen2_5_vl"
  VisionConfig vision;
  TextConfig text;
  int32_t image_token_id = -1;  // placeholder of one image embedding row in the prompt
  int32_t video_token_id = -1;
  int32_t vision_start_token_id = -1;
  int32_t vision_end_token_id = -1;
  int32_t eos_token_id = -1;  // -1 when the file names none
  std::string torch_dtype;    // as written: "bfloat16", "float16", "float32"; may be empty
};

// Parses the text of a config.json: the older flat layout (language-model fields at the top level)
// and the newer one with `text_config`. Unknown fields are ignored; a field that is missing without
// a safe default, of the wrong type, out of range or inconsistent with another (heads that do not
// divide, a mrope_section that does not sum to head_dim / 2, out_hidden_size != hidden_size,
// sliding-window attention switched on, an unknown activation) gives INVALID_ARGUMENT with the
// field's name and value; another architecture gives UNIMPLEMENTED with its name.
absl::StatusOr<ModelConfig> ParseModelConfig(std::string_view json_text);

}  // namespace rserve::model

#endif  // RSERVE_SRC_MODEL_SPEC_MODEL_CONFIG_H_
