#include "src/runtime/model/chat.h"

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace rserve::runtime {

namespace {

bool IsImage(const RequestPart& part) {
  return std::holds_alternative<EncodedImage>(part) || std::holds_alternative<PixelImage>(part) ||
         std::holds_alternative<VideoFrames>(part) || std::holds_alternative<VideoFile>(part) ||
         std::holds_alternative<EmbeddingInput>(part);
}

RequestPart FromPromptPart(model::PromptPart part) {
  if (auto* text = std::get_if<model::TextPart>(&part)) return UserText{std::move(text->text)};
  if (auto* text = std::get_if<model::TemplatePart>(&part)) {
    return TemplateText{std::move(text->text)};
  }
  return TokenIds{std::move(std::get<model::TokenPart>(part).ids)};
}

}  // namespace

absl::StatusOr<std::vector<RequestPart>> RenderParts(std::vector<ChatMessage> messages,
                                                     bool number_images, RenderFunction render) {
  std::vector<RequestPart> images;
  std::vector<model::ChatMessage> chat;
  for (size_t m = 0; m < messages.size(); ++m) {
    model::ChatMessage& message = chat.emplace_back();
    message.role = std::move(messages[m].role);
    for (RequestPart& part : messages[m].content) {
      if (auto* text = std::get_if<UserText>(&part)) {
        message.content.emplace_back(model::ChatText{std::move(text->text)});
      } else if (IsImage(part)) {
        const auto* rows = std::get_if<EmbeddingInput>(&part);
        const bool video = std::holds_alternative<VideoFrames>(part) ||
                           std::holds_alternative<VideoFile>(part) ||
                           (rows != nullptr && rows->seconds_per_grid != 0);
        message.content.emplace_back(model::ChatImage{static_cast<int32_t>(images.size()), video});
        images.push_back(std::move(part));
      } else {
        return absl::InvalidArgumentError(
            absl::StrCat("chat message ", m,
                         " holds token ids or template text; only user text "
                         "and pictures can be said"));
      }
    }
  }
  model::ChatOptions options;
  options.add_vision_id = number_images;
  auto rendered = render(chat, options);
  if (!rendered.ok()) return rendered.status();
  std::vector<RequestPart> parts(rendered->parts.size());
  for (size_t k = 0; k < rendered->image_parts.size(); ++k) {
    parts[static_cast<size_t>(rendered->image_parts[k])] =
        std::move(images[static_cast<size_t>(rendered->image_indices[k])]);
  }
  for (size_t i = 0; i < parts.size(); ++i) {
    if (std::holds_alternative<model::ImagePart>(rendered->parts[i])) continue;
    parts[i] = FromPromptPart(std::move(rendered->parts[i]));
  }
  return parts;
}

}  // namespace rserve::runtime

namespace rserve {

absl::StatusOr<std::vector<RequestPart>> RenderChat(std::vector<ChatMessage> messages,
                                                    bool number_images) {
  return runtime::RenderParts(std::move(messages), number_images, model::RenderChat);
}

}  // namespace rserve
