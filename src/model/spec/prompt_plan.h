// From the parts of a request to its token ids, its items, where their rows go, and M-RoPE
// positions.

#ifndef RSERVE_SRC_MODEL_SPEC_PROMPT_PLAN_H_
#define RSERVE_SRC_MODEL_SPEC_PROMPT_PLAN_H_

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "src/model/spec/image_plan.h"
#include "src/model/spec/model_config.h"
#include "src/model/spec/tokenizer.h"

namespace rserve::model {

// One part of a request, in prompt order.
struct TokenPart {
  std::vector<int32_t> ids;  // control tokens are allowed, image placeholders are not
};
struct TextPart {
  std::string text;  // UTF-8 from a user: always plain text, never a control token
};
// Text that a template wrote: special-token names in it become their tokens.
struct TemplatePart {
  std::string text;
};
struct ImagePart {
  int64_t height = 0;  // oriented size in pixels
  int64_t width = 0;
};
// Frames of one size. `temporal` has a position for each temporal patch (video_plan.h).
struct VideoPart {
  int64_t height = 0;  // oriented size in pixels
  int64_t width = 0;
  int64_t frames = 0;
  std::vector<int32_t> temporal;
};
// Embedding rows that the caller brings: grid.t x grid.h x grid.w of them, merged patches already.
// A video's when `temporal` is not empty.
struct EmbeddingPart {
  Grid grid;
  std::vector<int32_t> temporal;
};
using PromptPart =
    std::variant<TokenPart, TextPart, TemplatePart, ImagePart, VideoPart, EmbeddingPart>;

// One multimodal item of the planned prompt: its rows are the tokens [token_begin, token_begin +
// plan.tokens).
struct PlannedItem {
  int32_t part_index = 0;  // which part of the request it came from
  ImagePlan plan;
  int64_t token_begin = 0;
  // Of a video: the temporal position of each patch after the first's. Of an image empty.
  std::vector<int32_t> temporal;
};

struct PromptPlan {
  std::vector<int32_t> token_ids;  // placeholders expanded
  std::vector<PlannedItem> items;  // in prompt order
  // M-RoPE positions, three axes one after another: [3][token_ids.size()], temporal, height, width.
  std::vector<int32_t> positions;
  // Next text position minus the number of tokens: what a decoder adds to its token index.
  int64_t mrope_delta = 0;
};

// Plans a prompt. An image part becomes vision_start, its placeholders, vision_end (a video's have
// an id of their own); when `image_markers` is false the caller's own parts hold the start and end
// markers and only the placeholders are added. Errors: INVALID_ARGUMENT that names the part's index
// and the fault (empty prompt, token id out of the vocabulary, a placeholder id among token ids,
// invalid UTF-8, an image that cannot be planned).
absl::StatusOr<PromptPlan> PlanPrompt(absl::Span<const PromptPart> parts, const ModelConfig& model,
                                      const ImageProcessorConfig& processor,
                                      const Tokenizer& tokenizer, bool image_markers = true);

// M-RoPE positions of a token sequence whose images and videos are given by `items`: text advances
// all three axes together, an item spans its merged grid (a video's patches stand at their temporal
// positions), and the text after it begins at the largest position used plus one.
std::vector<int32_t> MropePositions(int64_t num_tokens, absl::Span<const PlannedItem> items,
                                    const ModelConfig& model, int64_t* mrope_delta);

}  // namespace rserve::model

#endif  // RSERVE_SRC_MODEL_SPEC_PROMPT_PLAN_H_
