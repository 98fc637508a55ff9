#include "tools/rserve/command.h"

#include <algorithm>
#include <cstdio>
#include <string>

#include "absl/strings/str_cat.h"
#include "tools/rserve/text.h"

namespace rserve::tool {

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "rserve: %s\n", std::string(status.message()).c_str());
  return kExitFailure;
}

int FailUsage(const absl::Status& status) {
  Fail(status);
  return kExitUsage;
}

std::optional<int> ParseOrHelp(const CommandText& text, OptionTable* table, Args args) {
  const auto wants_help = [](const std::string& arg) { return arg == "--help" || arg == "-h"; };
  if (std::any_of(args.begin(), args.end(), wants_help)) {
    const std::string help =
        absl::StrCat("usage: rserve ", text.name, " ", table->PositionalUsage(), "[options]\n\n",
                     text.description, "\n", table->Help(), "\nExamples:\n", text.examples);
    std::fputs(help.c_str(), stdout);
    return kExitOk;
  }
  const absl::Status status = table->Parse(args);
  if (status.ok()) return std::nullopt;
  FailUsage(status);
  std::fprintf(stderr, "try 'rserve %s --help'\n", std::string(text.name).c_str());
  return kExitUsage;
}

}  // namespace rserve::tool
