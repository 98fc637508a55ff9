// docs/cases.md promises a test for each case: the tests it names are there.

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/catch.h"

namespace rserve::media {
namespace {

std::string ReadText(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

struct Named {
  std::string folder;
  std::string test;
};

// Of a table's last cell: texts between double quotes, each with the word and colon that stand
// before it, or before an earlier one of the cell.
std::vector<Named> NamedTests(const std::string& cell) {
  std::vector<Named> found;
  std::string folder;
  size_t before = 0;
  for (size_t at = cell.find('"'); at != std::string::npos; at = cell.find('"', before)) {
    const size_t colon = cell.rfind(": ", at);
    if (colon != std::string::npos && colon >= before) {
      const size_t word = cell.find_last_of(" ;,|", colon - 1);
      folder = cell.substr(word + 1, colon - word - 1);
    }
    const size_t end = cell.find('"', at + 1);
    if (end == std::string::npos) break;
    found.push_back({folder, cell.substr(at + 1, end - at - 1)});
    before = end + 1;
  }
  return found;
}

TEST_CASE("every test that docs/cases.md names exists in the folder that it names", "[media]") {
  const std::filesystem::path root = RSERVE_SOURCE_DIR;
  std::map<std::string, std::string> tests;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root / "tests")) {
    if (entry.path().extension() != ".cc") continue;
    tests[entry.path().parent_path().filename().string()] += ReadText(entry.path());
  }
  tests["inputs"] = tests["cache"] = tests["media"];
  std::istringstream lines(ReadText(root / "docs/cases.md"));
  std::string line;
  int names = 0, rows = 0;
  while (std::getline(lines, line)) {
    const bool row = line.rfind("| ", 0) == 0 && line.rfind("| reported as", 0) != 0;
    if (!row) continue;
    CAPTURE(line);
    ++rows;
    const size_t cell = line.rfind(" | ", line.size() - 3);
    REQUIRE(cell != std::string::npos);
    for (const Named& named : NamedTests(line.substr(cell + 2))) {
      // A name may be given by its beginning; one that is broken over lines of a test's source is
      // found by its first words.
      std::string name = named.test.substr(0, named.test.find(" ..."));
      if (name.size() > 40) name.resize(name.rfind(' ', 40));
      CAPTURE(named.folder, name);
      CHECK(tests[named.folder].find("\"" + name) != std::string::npos);
      ++names;
    }
  }
  CHECK(rows >= 35);
  CHECK(names > 55);
}

}  // namespace
}  // namespace rserve::media
