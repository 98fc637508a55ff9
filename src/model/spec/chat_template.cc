#include "src/model/spec/chat_template.h"

#include <string_view>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace rserve::model {
namespace {

constexpr char kTurnStart[] = "<|im_start|>";
constexpr char kTurnEnd[] = "<|im_end|>";
constexpr char kDefaultSystem[] = "You are a helpful assistant.";

// Collects the parts; plain text that follows plain text joins it.
class Renderer {
 public:
  void Control(const char* token) {
    FlushText();
    if (!chat_.parts.empty()) {
      if (auto* last = std::get_if<TemplatePart>(&chat_.parts.back())) {
        last->text += token;
        return;
      }
    }
    chat_.parts.emplace_back(TemplatePart{token});
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

}  // namespace

absl::StatusOr<RenderedChat> RenderChat(absl::Span<const ChatMessage> messages,
                                        const ChatOptions& options) {
  if (messages.empty()) return absl::InvalidArgumentError("the chat has no messages");
  Renderer out;
  int32_t pictures = 0, videos = 0;
  if (messages.front().role != "system") {
    out.Control(kTurnStart);
    out.Text("system\n");
    out.Text(kDefaultSystem);
    out.Control(kTurnEnd);
    out.Text("\n");
  }
  for (size_t i = 0; i < messages.size(); ++i) {
    const ChatMessage& message = messages[i];
    if (message.role != "system" && message.role != "user" && message.role != "assistant") {
      return absl::InvalidArgumentError(absl::StrCat(
          "message ", i, ": role \"", absl::Utf8SafeCHexEscape(message.role.substr(0, 64)),
          "\" is not system, user or assistant"));
    }
    out.Control(kTurnStart);
    out.Text(message.role);
    out.Text("\n");
    for (const ChatContent& content : message.content) {
      if (const auto* text = std::get_if<ChatText>(&content)) {
        out.Text(text->text);
        continue;
      }
      const ChatImage& image = std::get<ChatImage>(content);
      if (image.image_index < 0) {
        return absl::InvalidArgumentError(
            absl::StrCat("message ", i, ": image index ", image.image_index, " is negative"));
      }
      const int32_t number = image.video ? ++videos : ++pictures;
      if (options.add_vision_id) {
        out.Text(absl::StrCat(image.video ? "Video " : "Picture ", number, ": "));
      }
      out.Image(image.image_index);
    }
    out.Control(kTurnEnd);
    out.Text("\n");
  }
  if (options.add_generation_prompt) {
    out.Control(kTurnStart);
    out.Text("assistant\n");
  }
  return std::move(out).Take();
}

}  // namespace rserve::model
