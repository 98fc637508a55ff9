#include "tools/rserve/requests.h"

#include <utility>
#include <variant>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "src/media/image.h"
#include "src/model/spec/chat_json.h"
#include "tools/rserve/files.h"

namespace rserve::tool {
namespace {

using SharedBytes = std::shared_ptr<const std::vector<uint8_t>>;

absl::StatusOr<SharedBytes> ReadShared(const std::string& path) {
  absl::StatusOr<std::vector<uint8_t>> bytes = ReadBinaryFile(path);
  if (!bytes.ok()) return bytes.status();
  return std::make_shared<const std::vector<uint8_t>>(*std::move(bytes));
}

// Renders the messages and puts the pictures in prompt order. Files from `first_video` on are
// videos.
absl::StatusOr<LoadedChat> Render(absl::Span<const model::ChatMessage> messages,
                                  const std::vector<SharedBytes>& files,
                                  const std::vector<std::string>& names, bool number_pictures,
                                  const model::ModelFolder& spec, size_t first_video) {
  absl::StatusOr<model::RenderedChat> chat =
      spec.chat.Render(messages, {.add_vision_id = number_pictures}, *spec.tokenizer);
  if (!chat.ok()) return chat.status();
  LoadedChat loaded;
  loaded.chat = *std::move(chat);
  for (const int32_t image : loaded.chat.image_indices) {
    loaded.files.push_back(files[static_cast<size_t>(image)]);
    loaded.names.push_back(names[static_cast<size_t>(image)]);
    loaded.videos.push_back(static_cast<size_t>(image) >= first_video);
  }
  return loaded;
}

// Decodes the frames of one video.
absl::StatusOr<SharedBytes> ReadFrames(absl::Span<const std::string> paths, FrameList* list) {
  auto pixels = std::make_shared<std::vector<uint8_t>>();
  for (const std::string& path : paths) {
    absl::StatusOr<SharedBytes> bytes = ReadShared(path);
    if (!bytes.ok()) return bytes.status();
    absl::StatusOr<media::RgbImage> image = media::DecodeImage(**bytes, media::ImageLimits());
    if (!image.ok()) {
      return absl::Status(image.status().code(),
                          absl::StrCat(path, ": ", image.status().message()));
    }
    if (list->count > 0 && (image->width != list->width || image->height != list->height)) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": a frame of ", image->width, "x",
                                                     image->height, " pixels in a video of ",
                                                     list->width, "x", list->height));
    }
    list->width = image->width;
    list->height = image->height;
    ++list->count;
    pixels->insert(pixels->end(), image->data.begin(), image->data.end());
  }
  return SharedBytes(std::move(pixels));
}

bool Numbered(const PromptFlags& flags, size_t pictures) {
  return flags.number_pictures == "on" || (flags.number_pictures == "auto" && pictures > 1);
}

absl::StatusOr<model::ParsedChat> ReadChat(const std::string& path) {
  absl::StatusOr<std::string> text = ReadTextFile(path);
  if (!text.ok()) return text.status();
  absl::StatusOr<model::ParsedChat> chat = model::ParseChatJson(*text);
  if (!chat.ok()) {
    return absl::Status(chat.status().code(), absl::StrCat(path, ": ", chat.status().message()));
  }
  return chat;
}

absl::StatusOr<LoadedChat> LoadParsedChat(const std::string& path, const model::ParsedChat& chat,
                                          bool number_pictures, const model::ModelFolder& spec) {
  std::vector<SharedBytes> files;
  std::vector<std::string> names;
  for (const model::ChatImageSource& image : chat.images) {
    if (image.path.empty()) {
      files.push_back(
          std::make_shared<const std::vector<uint8_t>>(image.bytes.begin(), image.bytes.end()));
      names.push_back("data URI");
      continue;
    }
    names.push_back(absl::StartsWith(image.path, "/") ? image.path
                                                      : absl::StrCat(FolderOf(path), image.path));
    absl::StatusOr<SharedBytes> bytes = ReadShared(names.back());
    if (!bytes.ok()) return bytes.status();
    files.push_back(*std::move(bytes));
  }
  return Render(chat.messages, files, names, number_pictures, spec, files.size());
}

}  // namespace

absl::StatusOr<LoadedChat> LoadQuestion(absl::Span<const std::string> picture_files,
                                        const std::string& question, bool number_pictures,
                                        const model::ModelFolder& spec,
                                        absl::Span<const std::string> video_files,
                                        absl::Span<const std::string> frame_files, double fps) {
  std::vector<model::ChatMessage> messages(1);
  model::ChatMessage& message = messages.front();
  message.role = "user";
  std::vector<SharedBytes> files;
  std::vector<std::string> names;
  for (const auto& paths : {picture_files, video_files}) {
    for (const std::string& path : paths) {
      absl::StatusOr<SharedBytes> bytes = ReadShared(path);
      if (!bytes.ok()) return bytes.status();
      const bool video = files.size() >= picture_files.size();
      message.content.emplace_back(model::ChatImage{static_cast<int32_t>(files.size()), video});
      files.push_back(*std::move(bytes));
      names.push_back(path);
    }
  }
  FrameList frames;
  frames.fps = fps;
  if (!frame_files.empty()) {
    absl::StatusOr<SharedBytes> pixels = ReadFrames(frame_files, &frames);
    if (!pixels.ok()) return pixels.status();
    message.content.emplace_back(model::ChatImage{static_cast<int32_t>(files.size()), true});
    files.push_back(*std::move(pixels));
    names.push_back("the frames");
  }
  message.content.emplace_back(model::ChatText{question});
  absl::StatusOr<LoadedChat> loaded =
      Render(messages, files, names, number_pictures, spec, picture_files.size());
  if (!loaded.ok()) return loaded.status();
  loaded->frames.resize(loaded->files.size());
  for (size_t i = 0; i < loaded->files.size(); ++i) {
    if (frames.count > 0 && loaded->files[i] == files.back()) loaded->frames[i] = frames;
  }
  return loaded;
}

ModelRequest ToRequest(const LoadedChat& loaded) {
  ModelRequest request;
  size_t picture = 0;
  for (const model::PromptPart& part : loaded.chat.parts) {
    if (const auto* tokens = std::get_if<model::TokenPart>(&part)) {
      request.parts.push_back(TokenIds{tokens->ids});
    } else if (const auto* text = std::get_if<model::TextPart>(&part)) {
      request.parts.push_back(UserText{text->text});
    } else if (const auto* written = std::get_if<model::TemplatePart>(&part)) {
      request.parts.push_back(TemplateText{written->text});
    } else {
      const std::vector<uint8_t>& file = *loaded.files[picture];
      if (picture < loaded.frames.size() && loaded.frames[picture].count > 0) {
        const FrameList& list = loaded.frames[picture++];
        VideoFrames video;
        video.pixels = file;
        video.width = list.width;
        video.height = list.height;
        video.frames = list.count;
        video.fps = list.fps;
        video.borrow = true;
        request.parts.push_back(video);
      } else if (loaded.videos[picture++]) {
        VideoFile video;
        video.bytes = file;
        video.borrow = true;
        request.parts.push_back(video);
      } else {
        request.parts.push_back(EncodedImage{file, /*borrow=*/true});
      }
    }
  }
  return request;
}

absl::Status NameFile(const absl::Status& status, const LoadedChat& loaded) {
  absl::string_view rest = status.message();
  if (!absl::ConsumePrefix(&rest, "picture ")) return status;
  const size_t digits = rest.find_first_not_of("0123456789");
  size_t number = 0;
  if (!absl::SimpleAtoi(rest.substr(0, digits), &number) || number >= loaded.names.size()) {
    return status;
  }
  return absl::Status(status.code(), absl::StrCat(loaded.names[number], ": ", status.message()));
}

void AddPromptFlags(OptionTable* table, PromptFlags* flags) {
  table->Section("Request");
  table->Strings("image", "FILE", &flags->images,
                 "a picture file; give it several times for several pictures, in their order");
  table->String("prompt", "TEXT", &flags->prompt, "the question, asked after the pictures");
  table->String("chat", "FILE", &flags->chat,
                "instead: a JSON file of OpenAI-style messages; picture paths in it are relative "
                "to it");
  table->Custom(
      "number-pictures", "WHEN", flags->number_pictures,
      "write 'Picture N: ' before each picture, as the chat template's add_vision_id "
      "does: on, off, or auto (with two pictures or more)",
      [flags](absl::string_view text) {
        if (text != "on" && text != "off" && text != "auto") {
          return absl::InvalidArgumentError(absl::StrCat("'", text, "' is not on, off or auto"));
        }
        flags->number_pictures = std::string(text);
        return absl::OkStatus();
      });
}

absl::Status CheckPromptFlags(const PromptFlags& flags) {
  if (!flags.given()) {
    return absl::InvalidArgumentError("nothing is asked: give --prompt (with --image) or --chat");
  }
  if (!flags.chat.empty() && (!flags.images.empty() || !flags.videos.empty() ||
                              !flags.frames.empty() || !flags.prompt.empty())) {
    return absl::InvalidArgumentError(
        "--chat holds the whole request: no --image, --video, --frames or --prompt");
  }
  if (flags.frames.empty() != (flags.fps == 0)) {
    return absl::InvalidArgumentError(
        "--frames needs --fps, the rate of these frames, and the other way round");
  }
  return absl::OkStatus();
}

absl::StatusOr<LoadedChat> LoadPrompt(const PromptFlags& flags, const model::ModelFolder& spec) {
  if (flags.chat.empty()) {
    return LoadQuestion(flags.images, flags.prompt, Numbered(flags, flags.images.size()), spec,
                        flags.videos, flags.frames, flags.fps);
  }
  const absl::StatusOr<model::ParsedChat> chat = ReadChat(flags.chat);
  if (!chat.ok()) return chat.status();
  return LoadParsedChat(flags.chat, *chat, Numbered(flags, chat->images.size()), spec);
}

}  // namespace rserve::tool
