// The message list of a chat request, as OpenAI-style JSON, to messages and images.

#ifndef RSERVE_SRC_MODEL_SPEC_CHAT_JSON_H_
#define RSERVE_SRC_MODEL_SPEC_CHAT_JSON_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "src/model/spec/chat_template.h"

namespace rserve::model {

// Where an image comes from: exactly one of the two is not empty. This layer opens no files;
// whether paths may be named at all is for the caller to say (ChatJsonLimits::allow_files).
struct ChatImageSource {
  std::string path;   // as the request wrote it, or without "file://"
  std::string bytes;  // an encoded file (PNG, JPEG, ...) from a data URI
};

struct ParsedChat {
  std::vector<ChatMessage> messages;    // ChatImage::image_index indexes `images`
  std::vector<ChatImageSource> images;  // in the order of the request
};

struct ChatJsonLimits {
  int64_t max_json_bytes = int64_t{64} << 20;
  int64_t max_image_bytes = int64_t{32} << 20;  // of one decoded data URI
  int32_t max_messages = 4096;
  int32_t max_images = 1024;
  // Whether an image may be a path. A server whose clients are not its user's own says no: then
  // only data URIs are taken.
  bool allow_files = true;
};

// Parses
//   [{"role": "user", "content": "text"},
//    {"role": "user", "content": [{"type": "text", "text": "..."},
//                                 {"type": "image", "image": "path or data URI"},
//                                 {"type": "image_url", "image_url": {"url":
//                                 "data:image/png;base64,..."}}]}]
// or an object whose "messages" is that list, as OpenAI clients send it; what else it holds (model,
// sampling) is the caller's to read, but tools are refused. `image_url` may also be the string
// itself. Everything else (http addresses, videos, tools, other
// content types) gives INVALID_ARGUMENT that names the message, the part and what was found there.
absl::StatusOr<ParsedChat> ParseChatJson(std::string_view json_text,
                                         const ChatJsonLimits& limits = {});

}  // namespace rserve::model

#endif  // RSERVE_SRC_MODEL_SPEC_CHAT_JSON_H_
