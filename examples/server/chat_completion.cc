#include "chat_completion.h"

#include <array>
#include <optional>
#include <utility>

namespace server {
namespace {

using nlohmann::json;

std::optional<std::string> DecodeBase64(std::string_view text) {
  static const std::array<int8_t, 256> kValues = [] {
    std::array<int8_t, 256> values;
    values.fill(-1);
    const std::string_view digits =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < digits.size(); ++i) {
      values[static_cast<uint8_t>(digits[i])] = static_cast<int8_t>(i);
    }
    return values;
  }();
  while (!text.empty() && text.back() == '=') text.remove_suffix(1);
  if (text.size() % 4 == 1) return std::nullopt;
  std::string bytes;
  bytes.reserve(text.size() * 3 / 4);
  uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    const int value = kValues[static_cast<uint8_t>(c)];
    if (value < 0) return std::nullopt;
    bits = bits << 6 | static_cast<uint32_t>(value);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes.push_back(static_cast<char>(bits >> count & 0xff));
  }
  return bytes;
}

class Reader {
 public:
  std::variant<ChatCompletion, BadRequest> Read(const std::string& body) {
    const json in = json::parse(body, nullptr, /*allow_exceptions=*/false);
    if (in.is_discarded() || !in.is_object())
      return BadRequest{"the body is not a JSON object", ""};
    ReadOptions(in);
    const auto messages = in.find("messages");
    if (messages == in.end() || !messages->is_array() || messages->empty()) {
      Fail("messages", "want a list of messages");
    } else {
      for (size_t i = 0; i < messages->size(); ++i) {
        ReadMessage((*messages)[i], "messages[" + std::to_string(i) + "]");
      }
    }
    if (bad_.has_value()) return *std::move(bad_);
    out_.request.Flags(RSERVE_REQUEST_F_CHAT);
    if (out_.pictures.size() > 1) out_.request.Flags(RSERVE_REQUEST_F_NUMBER_IMAGES);
    return std::move(out_);
  }

 private:
  void Fail(const std::string& param, const std::string& message) {
    if (!bad_.has_value()) bad_ = BadRequest{param + ": " + message, param};
  }

  // The number at `key`, or its default.
  double Number(const json& in, const char* key, double least, double most, double otherwise) {
    const auto it = in.find(key);
    if (it == in.end() || it->is_null()) return otherwise;
    if (it->is_number() && it->get<double>() >= least && it->get<double>() <= most) {
      return it->get<double>();
    }
    Fail(key, "is " + it->dump().substr(0, 40) + ", want a number from " + json(least).dump() +
                  " to " + json(most).dump());
    return otherwise;
  }

  void ReadOptions(const json& in) {
    const auto text = in.find("model");
    if (text != in.end() && text->is_string()) out_.model = text->get<std::string>();
    if (Number(in, "n", 1, 1e6, 1) != 1) Fail("n", "one choice is given");
    for (const char* key : {"tools", "functions", "audio"}) {
      if (in.contains(key) && !in[key].empty()) Fail(key, "is not supported");
    }
    for (const char* key : {"max_tokens", "max_completion_tokens"}) Number(in, key, 1, 1e9, 1);
    rserve_request& fields = out_.request.fields();
    fields.temperature = static_cast<float>(Number(in, "temperature", 0, 2, 0));
    fields.top_p = static_cast<float>(Number(in, "top_p", 0, 1, 0));
    fields.seed = static_cast<uint64_t>(Number(in, "seed", 0, 9e15, 0));
    out_.stream = in.value("stream", json(false)) == json(true);
    const json options = in.value("stream_options", json::object());
    out_.include_usage = options.is_object() && options.value("include_usage", json(false)) == true;
  }

  void ReadMessage(const json& message, const std::string& where) {
    if (!message.is_object() || !message.contains("role") || !message["role"].is_string()) {
      return Fail(where, "want an object with a role");
    }
    out_.request.Role(message["role"].get<std::string>());
    const json content = message.value("content", json());
    if (content.is_string()) {
      out_.request.Text(content.get<std::string>());
    } else if (content.is_array()) {
      for (size_t i = 0; i < content.size(); ++i) {
        ReadPart(content[i], where + ".content[" + std::to_string(i) + "]");
      }
    } else {
      Fail(where + ".content", "want a string or a list of parts");
    }
  }

  void ReadPart(const json& part, const std::string& where) {
    const json type = part.is_object() ? part.value("type", json()) : json();
    if (type == "text") {
      const json text = part.value("text", json());
      if (!text.is_string()) return Fail(where + ".text", "want a string");
      out_.request.Text(text.get<std::string>());
    } else if (type == "image_url") {
      const json url = part.value("image_url", json());
      const json address = url.is_object() ? url.value("url", json()) : url;
      if (!address.is_string()) return Fail(where + ".image_url.url", "want a string");
      ReadPicture(address.get<std::string>(), where + ".image_url.url");
    } else {
      Fail(where + ".type", "want text or image_url");
    }
  }

  void ReadPicture(const std::string& address, const std::string& where) {
    const size_t comma = address.find(',');
    const std::string head = address.substr(0, comma);
    const std::string base64 = ";base64";
    if (comma == std::string::npos || head.rfind("data:image/", 0) != 0 ||
        head.size() < base64.size() ||
        head.compare(head.size() - base64.size(), base64.size(), base64) != 0) {
      return Fail(where,
                  "want a data URI, data:image/<type>;base64,<data>; addresses are not "
                  "fetched");
    }
    auto bytes = DecodeBase64(std::string_view(address).substr(comma + 1));
    if (!bytes.has_value() || bytes->empty()) return Fail(where, "holds no valid base64");
    const std::string& kept = out_.pictures.emplace_back(*std::move(bytes));
    out_.request.Image(kept.data(), kept.size(), /*borrow=*/true);
  }

  ChatCompletion out_;
  std::optional<BadRequest> bad_;
};

json Head(const Answer& answer, const char* object) {
  return {{"id", "chatcmpl-" + std::to_string(answer.id)},
          {"object", object},
          {"created", answer.created_s},
          {"model", answer.model}};
}

json Usage(const Answer& answer) {
  return {{"prompt_tokens", answer.prompt_tokens},
          {"completion_tokens", 1},
          {"total_tokens", answer.prompt_tokens + 1},
          {"prompt_tokens_details", {{"cached_tokens", answer.cached_tokens}}}};
}

const char* FinishReason(const Answer& answer) { return answer.stopped ? "stop" : "length"; }

std::string Piece(const json& data) {
  return "data: " + data.dump(-1, ' ', false, json::error_handler_t::replace) + "\n\n";
}

}  // namespace

std::variant<ChatCompletion, BadRequest> ParseChatCompletion(const std::string& body) {
  return Reader().Read(body);
}

json CompletionJson(const Answer& answer) {
  json out = Head(answer, "chat.completion");
  out["choices"] = json::array({{{"index", 0},
                                 {"message", {{"role", "assistant"}, {"content", answer.text}}},
                                 {"logprobs", nullptr},
                                 {"finish_reason", FinishReason(answer)}}});
  out["usage"] = Usage(answer);
  return out;
}

std::string CompletionStream(const Answer& answer, bool include_usage) {
  json piece = Head(answer, "chat.completion.chunk");
  piece["choices"] = json::array({{{"index", 0},
                                   {"delta", {{"role", "assistant"}, {"content", answer.text}}},
                                   {"finish_reason", nullptr}}});
  std::string out = Piece(piece);
  piece["choices"][0]["delta"] = json::object();
  piece["choices"][0]["finish_reason"] = FinishReason(answer);
  out += Piece(piece);
  if (include_usage) {
    piece["choices"] = json::array();
    piece["usage"] = Usage(answer);
    out += Piece(piece);
  }
  return out + "data: [DONE]\n\n";
}

json ErrorJson(const std::string& message, const std::string& type, const std::string& param) {
  return {{"error",
           {{"message", message},
            {"type", type},
            {"param", param.empty() ? json() : json(param)},
            {"code", nullptr}}}};
}

}  // namespace server
