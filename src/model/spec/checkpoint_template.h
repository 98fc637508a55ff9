// A checkpoint's own chat template (chat_template.jinja and its like), rendered to the parts of a
// prompt under the rule of chat_template.h: control tokens come from the template alone.
//
// The template is rendered as in transformers, but every byte keeps its author (jinja/text.h).
// Where the template's own bytes spell a special token that is a control token; the same letters
// from a message, or half from the one and half from the other, stay text. A picture or video is
// where the template writes <|vision_start|><|image_pad|><|vision_end|> (<|video_pad|>).

#ifndef RSERVE_SRC_MODEL_SPEC_CHECKPOINT_TEMPLATE_H_
#define RSERVE_SRC_MODEL_SPEC_CHECKPOINT_TEMPLATE_H_

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "src/model/spec/chat_template.h"
#include "src/model/spec/jinja/template.h"
#include "src/model/spec/tokenizer.h"

namespace rserve::model {

// Immutable; any thread may render.
class CheckpointTemplate {
 public:
  // `tokens`: what else the template's names mean ("eos_token"), as the template's own words.
  // Errors as jinja::Template::Parse.
  static absl::StatusOr<std::unique_ptr<const CheckpointTemplate>> Parse(
      std::string_view source, std::vector<std::pair<std::string, std::string>> tokens = {});

  // The template sees `messages` (content is a string where there is no picture, otherwise a list
  // of parts), add_generation_prompt, add_vision_id, tools and documents (none). INVALID_ARGUMENT:
  // no messages, a role that is not system, user or assistant, text that is not UTF-8, a template
  // that refuses them or does not show each picture once and in its order. Otherwise as
  // jinja::Template::Render.
  absl::StatusOr<RenderedChat> Render(absl::Span<const ChatMessage> messages,
                                      const ChatOptions& options, const Tokenizer& tokenizer) const;

  // What Render cuts into parts.
  absl::StatusOr<jinja::Text> RenderText(absl::Span<const ChatMessage> messages,
                                         const ChatOptions& options) const;

 private:
  CheckpointTemplate(std::unique_ptr<const jinja::Template> parsed,
                     std::vector<std::pair<std::string, std::string>> tokens)
      : template_(std::move(parsed)), tokens_(std::move(tokens)) {}

  const std::unique_ptr<const jinja::Template> template_;
  const std::vector<std::pair<std::string, std::string>> tokens_;
};

// What the chats of a checkpoint are rendered with.
struct ChatRenderer {
  std::shared_ptr<const CheckpointTemplate>
      own;              // null: the checkpoint brings none, or see `status`
  absl::Status status;  // why its template cannot be used

  // With its own template, or Qwen2.5-VL's where it brings none; `status` where it cannot be used.
  absl::StatusOr<RenderedChat> Render(absl::Span<const ChatMessage> messages,
                                      const ChatOptions& options, const Tokenizer& tokenizer) const;
};

}  // namespace rserve::model

#endif  // RSERVE_SRC_MODEL_SPEC_CHECKPOINT_TEMPLATE_H_
