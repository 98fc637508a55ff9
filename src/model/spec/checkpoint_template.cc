#include "src/model/spec/checkpoint_template.h"

#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/strings/str_cat.h"
#include "src/model/spec/chat_parts.h"
#include "src/model/spec/utf8.h"

namespace rserve::model {
namespace {

using jinja::Entries;
using jinja::Value;

constexpr std::string_view kVisionStart = "<|vision_start|>";
constexpr std::string_view kVisionEnd = "<|vision_end|>";
constexpr std::string_view kImagePad = "<|image_pad|>";
constexpr std::string_view kVideoPad = "<|video_pad|>";

Value DictOf(std::vector<std::pair<std::string, Value>> items) {
  auto entries = std::make_shared<Entries>();
  for (auto& [key, value] : items) entries->Set(key, std::move(value));
  return Value(jinja::Dict(std::move(entries)));
}

// A message's content as a client would send it.
Value ContentOf(const ChatMessage& message) {
  std::string text;
  std::vector<Value> parts;
  bool pictures = false;
  for (const ChatContent& content : message.content) {
    if (const auto* words = std::get_if<ChatText>(&content)) {
      text += words->text;
      parts.push_back(
          DictOf({{"type", Value::Of("text", false)}, {"text", Value::Of(words->text, false)}}));
      continue;
    }
    pictures = true;
    const bool video = std::get<ChatImage>(content).video;
    parts.push_back(DictOf({{"type", Value::Of(video ? "video" : "image", false)}}));
  }
  return pictures ? Value::OfList(std::move(parts)) : Value::Of(std::move(text), false);
}

absl::Status CheckMessages(absl::Span<const ChatMessage> messages, int64_t* bytes) {
  if (messages.empty()) return absl::InvalidArgumentError("the chat has no messages");
  for (size_t i = 0; i < messages.size(); ++i) {
    if (absl::Status status = CheckRole(messages[i], i); !status.ok()) return status;
    for (const ChatContent& content : messages[i].content) {
      *bytes += 1024;
      const auto* words = std::get_if<ChatText>(&content);
      if (words == nullptr) continue;
      if (const size_t bad = FirstInvalidUtf8(words->text); bad != words->text.size()) {
        return absl::InvalidArgumentError(
            absl::StrCat("message ", i, ": text is not UTF-8 at byte ", bad));
      }
      *bytes += static_cast<int64_t>(words->text.size());
    }
    *bytes += 1024;
  }
  return absl::OkStatus();
}

// The rendered text in pieces: control tokens and what lies between them.
struct Piece {
  std::string_view text;
  bool control = false;
};

std::vector<Piece> Cut(const jinja::Text& text, const Tokenizer& tokenizer) {
  std::vector<Piece> pieces;
  size_t at = 0;
  for (const jinja::Text::Run& run : text.runs()) {
    const std::string_view bytes = text.bytes().substr(at, run.end - at);
    at = run.end;
    if (!run.trusted) {
      pieces.push_back({bytes, false});
      continue;
    }
    for (const Tokenizer::Cut& cut : tokenizer.CutAtSpecials(bytes)) {
      pieces.push_back({cut.text, cut.special});
    }
  }
  return pieces;
}

// The pictures of all messages, in their order.
std::vector<ChatImage> Pictures(absl::Span<const ChatMessage> messages) {
  std::vector<ChatImage> pictures;
  for (const ChatMessage& message : messages) {
    for (const ChatContent& content : message.content) {
      if (const auto* image = std::get_if<ChatImage>(&content)) pictures.push_back(*image);
    }
  }
  return pictures;
}

}  // namespace

absl::StatusOr<std::unique_ptr<const CheckpointTemplate>> CheckpointTemplate::Parse(
    std::string_view source, std::vector<std::pair<std::string, std::string>> tokens) {
  auto parsed = jinja::Template::Parse(source);
  if (!parsed.ok()) return parsed.status();
  return std::unique_ptr<const CheckpointTemplate>(
      new CheckpointTemplate(*std::move(parsed), std::move(tokens)));
}

absl::StatusOr<jinja::Text> CheckpointTemplate::RenderText(absl::Span<const ChatMessage> messages,
                                                           const ChatOptions& options) const {
  int64_t bytes = 0;
  if (absl::Status status = CheckMessages(messages, &bytes); !status.ok()) return status;
  std::vector<Value> list;
  for (const ChatMessage& message : messages) {
    list.push_back(
        DictOf({{"role", Value::Of(message.role, false)}, {"content", ContentOf(message)}}));
  }
  Entries variables;
  for (const auto& [name, token] : tokens_) variables.Set(name, Value::Of(token, true));
  variables.Set("messages", Value::OfList(std::move(list)));
  variables.Set("tools", Value(jinja::None()));
  variables.Set("documents", Value(jinja::None()));
  variables.Set("add_generation_prompt", Value(options.add_generation_prompt));
  variables.Set("add_vision_id", Value(options.add_vision_id));
  jinja::RenderLimits limits;
  limits.max_output_bytes = Tokenizer::kMaxTextBytes;
  limits.max_work += bytes;
  return template_->Render(variables, limits);
}

absl::StatusOr<RenderedChat> CheckpointTemplate::Render(absl::Span<const ChatMessage> messages,
                                                        const ChatOptions& options,
                                                        const Tokenizer& tokenizer) const {
  const absl::StatusOr<jinja::Text> text = RenderText(messages, options);
  if (!text.ok()) return text.status();
  const std::vector<ChatImage> pictures = Pictures(messages);
  const std::vector<Piece> pieces = Cut(*text, tokenizer);
  ChatParts out;
  size_t shown = 0;
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (!pieces[i].control) {
      out.Text(pieces[i].text);
      continue;
    }
    const bool framed = i + 2 < pieces.size() && pieces[i].text == kVisionStart &&
                        pieces[i + 1].control && pieces[i + 2].control &&
                        pieces[i + 2].text == kVisionEnd;
    const std::string_view pad = framed ? pieces[i + 1].text : pieces[i].text;
    if (pad != kImagePad && pad != kVideoPad) {
      out.Control(pieces[i].text);
      continue;
    }
    if (!framed) {
      return absl::UnimplementedError(
          "the chat template writes a picture's placeholder outside of <|vision_start|> and "
          "<|vision_end|>");
    }
    if (shown < pictures.size() && pictures[shown].video != (pad == kVideoPad)) {
      return absl::InvalidArgumentError(absl::StrCat("the chat template shows picture ", shown,
                                                     " as a ",
                                                     pad == kVideoPad ? "video" : "picture"));
    }
    if (shown < pictures.size()) out.Image(pictures[shown].image_index);
    ++shown;
    i += 2;
  }
  if (shown != pictures.size()) {
    return absl::InvalidArgumentError(absl::StrCat("the chat template shows ", shown,
                                                   " pictures of a chat with ", pictures.size()));
  }
  return std::move(out).Take();
}

absl::StatusOr<RenderedChat> ChatRenderer::Render(absl::Span<const ChatMessage> messages,
                                                  const ChatOptions& options,
                                                  const Tokenizer& tokenizer) const {
  if (!status.ok()) return status;
  return own != nullptr ? own->Render(messages, options, tokenizer) : RenderChat(messages, options);
}

}  // namespace rserve::model
