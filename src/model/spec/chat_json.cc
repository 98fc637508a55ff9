#include "src/model/spec/chat_json.h"

#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "src/model/json/json_fields.h"

namespace rserve::model {
namespace {

using nlohmann::json;

constexpr std::string_view kDataScheme = "data:";
constexpr std::string_view kFileScheme = "file://";

bool StartsWith(std::string_view text, std::string_view prefix) {
  return text.substr(0, prefix.size()) == prefix;
}

// The first bytes of an address, for an error.
std::string Head(std::string_view text) {
  return std::string(text.substr(0, 48)) + (text.size() > 48 ? "..." : "");
}

// data:image/<type>;base64,<data>
absl::StatusOr<std::string> DecodeDataUri(std::string_view uri, const ChatJsonLimits& limits) {
  const size_t comma = uri.find(',');
  const std::string_view head = uri.substr(0, comma);
  constexpr std::string_view kBase64 = ";base64";
  if (comma == std::string_view::npos || !StartsWith(head, "data:image/") ||
      head.size() < kBase64.size() || head.substr(head.size() - kBase64.size()) != kBase64) {
    return absl::InvalidArgumentError(
        absl::StrCat("data URI \"", Head(head), "\": want data:image/<type>;base64,<data>"));
  }
  const std::string_view data = uri.substr(comma + 1);
  if (static_cast<int64_t>(data.size() / 4 * 3) > limits.max_image_bytes) {
    return absl::InvalidArgumentError(absl::StrCat("data URI of about ", data.size() / 4 * 3,
                                                   " bytes, max_image_bytes is ",
                                                   limits.max_image_bytes));
  }
  std::string bytes;
  if (data.empty() || !absl::Base64Unescape(absl::string_view(data.data(), data.size()), &bytes) ||
      bytes.empty()) {
    return absl::InvalidArgumentError("data URI does not hold valid base64");
  }
  return bytes;
}

class Parser {
 public:
  explicit Parser(const ChatJsonLimits& limits) : limits_(limits) {}

  absl::StatusOr<ParsedChat> Parse(const json& list) {
    if (!list.is_array() || list.empty() ||
        static_cast<int64_t>(list.size()) > limits_.max_messages) {
      return absl::InvalidArgumentError(absl::StrCat(
          "messages is ", Describe(list), ", want a list of 1 to ", limits_.max_messages));
    }
    for (size_t i = 0; i < list.size(); ++i) {
      const std::string where = absl::StrCat("messages[", i, "]");
      if (absl::Status status = AddMessage(list[i], where); !status.ok()) return status;
    }
    return std::move(chat_);
  }

 private:
  absl::Status AddMessage(const json& object, const std::string& where) {
    FieldReader in(object, where);
    ChatMessage message;
    in.String("role", &message.role, Presence::kRequired);
    const json* content = in.Find("content");
    if (content == nullptr) in.Fail("content", "want a string or a list of parts");
    if (!in.ok()) return in.status();
    if (message.role != "system" && message.role != "user" && message.role != "assistant") {
      in.Fail("role", "want system, user or assistant");
      return in.status();
    }
    for (const char* key : {"tool_calls", "function_call", "tool_call_id"}) {
      if (in.Has(key)) in.Fail(key, "tools are not supported");
    }
    if (content->is_string()) {
      message.content.emplace_back(ChatText{content->get<std::string>()});
    } else if (content->is_array()) {
      for (size_t i = 0; i < content->size(); ++i) {
        absl::Status status =
            AddPart((*content)[i], absl::StrCat(where, ".content[", i, "]"), &message);
        if (!status.ok()) return status;
      }
    } else {
      in.Fail("content", "want a string or a list of parts");
    }
    if (in.ok()) chat_.messages.push_back(std::move(message));
    return in.status();
  }

  absl::Status AddPart(const json& object, const std::string& where, ChatMessage* message) {
    FieldReader in(object, where);
    std::string type, text;
    in.String("type", &type, Presence::kRequired);
    if (type == "text") {
      in.String("text", &text, Presence::kRequired);
      message->content.emplace_back(ChatText{std::move(text)});
      return in.status();
    }
    if (type == "image") {
      in.String("image", &text, Presence::kRequired);
    } else if (type == "image_url") {
      const json* url = in.Find("image_url");
      if (url != nullptr && url->is_object()) {
        FieldReader url_in(*url, where + ".image_url");
        url_in.String("url", &text, Presence::kRequired);
        if (!url_in.ok()) return url_in.status();
      } else {
        in.String("image_url", &text, Presence::kRequired);
      }
    } else {
      in.Fail("type", "want text, image or image_url");
    }
    if (!in.ok()) return in.status();
    absl::Status status = AddImage(text, message);
    if (status.ok()) return status;
    return absl::Status(status.code(), absl::StrCat(where, ": ", status.message()));
  }

  absl::Status AddImage(std::string_view address, ChatMessage* message) {
    if (static_cast<int64_t>(chat_.images.size()) >= limits_.max_images) {
      return absl::InvalidArgumentError(
          absl::StrCat("more images than max_images ", limits_.max_images));
    }
    ChatImageSource source;
    if (StartsWith(address, kDataScheme)) {
      absl::StatusOr<std::string> bytes = DecodeDataUri(address, limits_);
      if (!bytes.ok()) return bytes.status();
      source.bytes = *std::move(bytes);
    } else if (!limits_.allow_files) {
      return absl::InvalidArgumentError(absl::StrCat(
          "image \"", Head(address), "\" is no data URI, and local files are not allowed here"));
    } else {
      if (StartsWith(address, kFileScheme)) address.remove_prefix(kFileScheme.size());
      if (address.empty() || address.find("://") != std::string_view::npos ||
          address.find('\0') != std::string_view::npos) {
        return absl::InvalidArgumentError(absl::StrCat("image \"", Head(address),
                                                       "\" is neither a file path nor a data URI;"
                                                       " addresses are not fetched"));
      }
      source.path = std::string(address);
    }
    message->content.emplace_back(ChatImage{static_cast<int32_t>(chat_.images.size())});
    chat_.images.push_back(std::move(source));
    return absl::OkStatus();
  }

  const ChatJsonLimits& limits_;
  ParsedChat chat_;
};

}  // namespace

absl::StatusOr<ParsedChat> ParseChatJson(std::string_view json_text, const ChatJsonLimits& limits) {
  absl::StatusOr<json> parsed = ParseJson(json_text, "messages", limits.max_json_bytes);
  if (!parsed.ok()) return parsed.status();
  if (!parsed->is_object()) return Parser(limits).Parse(*parsed);
  FieldReader in(*parsed, "request");
  for (const char* key : {"tools", "functions"}) {
    const json* tools = in.Find(key);
    if (tools != nullptr && !(tools->is_array() && tools->empty())) {
      in.Fail(key, "tools are not supported");
    }
  }
  const json* messages = in.Find("messages");
  if (messages == nullptr) in.Fail("messages", "want a list of messages");
  if (!in.ok()) return in.status();
  return Parser(limits).Parse(*messages);
}

}  // namespace rserve::model
