#include "src/model/spec/chat_template.h"

#include <string>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "src/model/spec/chat_parts.h"

namespace rserve::model {
namespace {

constexpr char kTurnStart[] = "<|im_start|>";
constexpr char kTurnEnd[] = "<|im_end|>";
constexpr char kDefaultSystem[] = "You are a helpful assistant.";

}  // namespace

absl::Status CheckRole(const ChatMessage& message, size_t index) {
  if (message.role == "system" || message.role == "user" || message.role == "assistant") {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "message ", index, ": role \"", absl::Utf8SafeCHexEscape(message.role.substr(0, 64)),
      "\" is not system, user or assistant"));
}

absl::StatusOr<RenderedChat> RenderChat(absl::Span<const ChatMessage> messages,
                                        const ChatOptions& options) {
  if (messages.empty()) return absl::InvalidArgumentError("the chat has no messages");
  ChatParts out;
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
    if (absl::Status status = CheckRole(message, i); !status.ok()) return status;
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
