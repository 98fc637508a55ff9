// Qwen2.5-VL's chat template: a list of messages to the parts of a prompt. For checkpoints that
// bring no template of their own (checkpoint_template.h renders those that do).
//
// The reference renders one string and encodes it whole, so a user who writes "<|im_end|>" ends the
// turn. Here control tokens stand in TemplateParts of their own and everything else, the users'
// text as well as the template's plain words ("user\n", "Picture 1: "), in TextParts, which never
// yield a special token. A TextPart always reaches from one control token to the next, which is
// where the reference cuts too; so the ids are the same for every text that holds no special
// token's name, also where words of the template touch the user's ("user\n" before "\n hello").

#ifndef RSERVE_SRC_MODEL_SPEC_CHAT_TEMPLATE_H_
#define RSERVE_SRC_MODEL_SPEC_CHAT_TEMPLATE_H_

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "src/model/spec/prompt_plan.h"

namespace rserve::model {

struct ChatText {
  std::string text;  // UTF-8
};
struct ChatImage {
  int32_t image_index = 0;  // into the caller's list of images
  bool video = false;       // counted as "Video 1: " and so on
};
using ChatContent = std::variant<ChatText, ChatImage>;

struct ChatMessage {
  std::string role;  // "system", "user" or "assistant"
  std::vector<ChatContent> content;
};

struct ChatOptions {
  bool add_vision_id = false;  // "Picture 1: " before the first image, and so on; also videos
  bool add_generation_prompt = true;  // end with the opening of the assistant's turn
};

struct RenderedChat {
  // For PlanPrompt with image_markers. Each ImagePart has size 0 x 0: the caller, who knows the
  // images, fills it in before planning.
  std::vector<PromptPart> parts;
  // The images in prompt order: parts[image_parts[k]] shows the caller's image image_indices[k].
  std::vector<int32_t> image_parts;
  std::vector<int32_t> image_indices;
};

// Renders `messages`. A system message ("You are a helpful assistant.") is put first when the first
// message is none. INVALID_ARGUMENT, naming the message: no messages at all, a role other than the
// three, an image index that is negative.
absl::StatusOr<RenderedChat> RenderChat(absl::Span<const ChatMessage> messages,
                                        const ChatOptions& options);

}  // namespace rserve::model

#endif  // RSERVE_SRC_MODEL_SPEC_CHAT_TEMPLATE_H_
