// Collects the parts of a rendered chat.

#ifndef RSERVE_SRC_MODEL_SPEC_CHAT_PARTS_H_
#define RSERVE_SRC_MODEL_SPEC_CHAT_PARTS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "src/model/spec/chat_template.h"

namespace rserve::model {

// INVALID_ARGUMENT for a role that is not system, user or assistant.
absl::Status CheckRole(const ChatMessage& message, size_t index);

// Plain text that follows plain text joins it, so that it reaches from one control token to the
// next.
class ChatParts {
 public:
  void Control(std::string_view token) {
    FlushText();
    if (!chat_.parts.empty()) {
      if (auto* last = std::get_if<TemplatePart>(&chat_.parts.back())) {
        last->text += token;
        return;
      }
    }
    chat_.parts.emplace_back(TemplatePart{std::string(token)});
  }

  void Text(std::string_view text) { text_ += text; }

  void Image(int32_t image_index) {
    FlushText();
    chat_.image_parts.push_back(static_cast<int32_t>(chat_.parts.size()));
    chat_.image_indices.push_back(image_index);
    chat_.parts.emplace_back(ImagePart{});
  }

  RenderedChat Take() && {
    FlushText();
    return std::move(chat_);
  }

 private:
  void FlushText() {
    if (!text_.empty()) chat_.parts.emplace_back(TextPart{std::move(text_)});
    text_.clear();
  }

  RenderedChat chat_;
  std::string text_;
};

}  // namespace rserve::model

#endif  // RSERVE_SRC_MODEL_SPEC_CHAT_PARTS_H_
