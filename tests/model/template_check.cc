// Checks chat templates against what the reference rendered of them. Not a test: the templates of
// published models are not in this repository (tools/golden/published_tokenizers.py writes the
// file).
//
//   rserve_template_check chats.json

#include <cstdio>
#include <fstream>
#include <string>

#include <nlohmann/json.hpp>

#include "src/model/spec/checkpoint_template.h"
#include "tests/model/chat_messages.h"

namespace rserve::model {
namespace {

int Main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s chats.json\n", argv[0]);
    return 2;
  }
  std::ifstream file(argv[1]);
  const nlohmann::json golden = nlohmann::json::parse(file, nullptr, false);
  if (golden.is_discarded()) {
    std::fprintf(stderr, "%s is no JSON\n", argv[1]);
    return 2;
  }
  int wrong = 0, rendered = 0, refused = 0;
  for (const auto& entry : golden["chats"]) {
    const std::string name = entry["template"];
    const auto parsed = CheckpointTemplate::Parse(golden["sources"][name].get<std::string>());
    if (!parsed.ok()) {
      std::fprintf(stderr, "%s: %s\n", name.c_str(), parsed.status().ToString().c_str());
      return 1;
    }
    ChatOptions options;
    options.add_generation_prompt = entry["add_generation_prompt"];
    options.add_vision_id = entry["add_vision_id"];
    const auto text = (*parsed)->RenderText(MessagesOf(entry["messages"]), options);
    const bool equal = entry["text"].is_null()
                           ? !text.ok()
                           : text.ok() && text->bytes() == entry["text"].get<std::string>();
    ++(entry["text"].is_null() ? refused : rendered);
    if (equal) continue;
    ++wrong;
    std::printf("%s differs: %s\n", name.c_str(), entry["messages"].dump().c_str());
  }
  std::printf("chats     %8d rendered, %d refused by the reference, %d differ\n", rendered, refused,
              wrong);
  return wrong == 0 ? 0 : 1;
}

}  // namespace
}  // namespace rserve::model

int main(int argc, char** argv) { return rserve::model::Main(argc, argv); }
