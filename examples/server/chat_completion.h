// The OpenAI chat completion request: from JSON to an rserve request, and answers to JSON.

#ifndef RSERVE_EXAMPLES_SERVER_CHAT_COMPLETION_H_
#define RSERVE_EXAMPLES_SERVER_CHAT_COMPLETION_H_

#include <cstdint>
#include <list>
#include <string>
#include <variant>
#include <vector>

#include "nlohmann/json.hpp"
#include "rserve/rserve.hpp"

namespace server {

// What is wrong with a request, for its sender.
struct BadRequest {
  std::string message;
  std::string param;  // the field
};

struct ChatCompletion {
  rserve::capi::Request request;
  std::list<std::string> pictures;  // decoded files, lent to the engine: keep until the end
  std::string model;
  bool stream = false;
  bool include_usage = false;  // of a stream
};

// Text and data-URI pictures; addresses are never fetched. What this engine cannot do (several
// choices, tools) is refused; fields that it does not know are ignored.
std::variant<ChatCompletion, BadRequest> ParseChatCompletion(const std::string& body);

// An answer or, with `stream`, the pieces of one ("data: ..." lines up to [DONE]).
struct Answer {
  uint64_t id = 0;
  int64_t created_s = 0;
  std::string model;
  std::string text;
  bool stopped = false;  // the token ends the turn: nothing to say
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;  // of them, those whose KV was there
};
nlohmann::json CompletionJson(const Answer& answer);
std::string CompletionStream(const Answer& answer, bool include_usage);

// {"error": {"message", "type", "param", "code"}}
nlohmann::json ErrorJson(const std::string& message, const std::string& type,
                         const std::string& param = "");

}  // namespace server

#endif  // RSERVE_EXAMPLES_SERVER_CHAT_COMPLETION_H_
