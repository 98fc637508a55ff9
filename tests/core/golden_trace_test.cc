// Compares the log of each scenario in tests/data/core/golden with the committed one.
//
//   core_golden_trace_test              compares, shows the first line that differs
//   core_golden_trace_test --update     writes the logs anew; read the diff before you commit it

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "tests/core/golden_scenario.h"

namespace rserve::test {
namespace {

std::string ReadAll(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

void ShowDifference(const std::string& expected, const std::string& actual) {
  const std::vector<std::string> before = absl::StrSplit(expected, '\n');
  const std::vector<std::string> after = absl::StrSplit(actual, '\n');
  size_t line = 0;
  while (line < before.size() && line < after.size() && before[line] == after[line]) ++line;
  std::printf("  line %zu\n  committed: %s\n  now:       %s\n", line + 1,
              line < before.size() ? before[line].c_str() : "(end)",
              line < after.size() ? after[line].c_str() : "(end)");
}

int Main(bool update) {
  std::vector<std::filesystem::path> scenarios;
  for (const auto& entry : std::filesystem::directory_iterator(
           std::filesystem::path(RSERVE_SOURCE_DIR) / "tests/data/core/golden")) {
    if (entry.path().extension() == ".scenario") scenarios.push_back(entry.path());
  }
  std::sort(scenarios.begin(), scenarios.end());
  int failures = scenarios.empty() ? 1 : 0;
  for (const std::filesystem::path& path : scenarios) {
    const std::string name = path.stem().string();
    const auto scenario = ParseScenario(ReadAll(path));
    const auto log = scenario.ok() ? RunScenario(*scenario) : scenario.status();
    std::filesystem::path log_path = path;
    log_path.replace_extension(".log");
    if (!log.ok()) {
      std::printf("%s: %s\n", name.c_str(), log.status().ToString().c_str());
      ++failures;
    } else if (update) {
      std::ofstream(log_path, std::ios::binary) << *log;
    } else if (*log != ReadAll(log_path)) {
      std::printf("%s: the trace has changed\n", name.c_str());
      ShowDifference(ReadAll(log_path), *log);
      ++failures;
    }
  }
  std::printf("%zu scenarios, %d failures%s\n", scenarios.size(), failures,
              failures > 0 ? "; core_golden_trace_test --update writes them anew" : "");
  return failures > 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

}  // namespace
}  // namespace rserve::test

int main(int argc, char** argv) {
  return rserve::test::Main(argc > 1 && std::string(argv[1]) == "--update");
}
