// Messages of a golden file (tools/golden/make_template_golden.py) as the chat template takes them.

#ifndef RSERVE_TESTS_MODEL_CHAT_MESSAGES_H_
#define RSERVE_TESTS_MODEL_CHAT_MESSAGES_H_

#include <vector>

#include <nlohmann/json.hpp>

#include "src/model/spec/chat_template.h"

namespace rserve::model {

inline std::vector<ChatMessage> MessagesOf(const nlohmann::json& messages) {
  std::vector<ChatMessage> out;
  int32_t pictures = 0;
  for (const nlohmann::json& message : messages) {
    ChatMessage& made = out.emplace_back();
    made.role = message["role"];
    if (message["content"].is_string()) {
      made.content.emplace_back(ChatText{message["content"]});
      continue;
    }
    for (const nlohmann::json& part : message["content"]) {
      if (part["type"] == "text") {
        made.content.emplace_back(ChatText{part["text"]});
      } else {
        made.content.emplace_back(ChatImage{pictures++, part["type"] == "video"});
      }
    }
  }
  return out;
}

}  // namespace rserve::model

#endif  // RSERVE_TESTS_MODEL_CHAT_MESSAGES_H_
