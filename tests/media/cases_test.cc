// docs/cases.md promises a test for each case: the tests it names are there.

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/support/catch.h"

namespace rserve::media {
namespace {

std::string ReadText(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// The texts between double quotes.
std::vector<std::string> Quoted(const std::string& text) {
  std::vector<std::string> found;
  for (size_t at = text.find('"'); at != std::string::npos; at = text.find('"', at)) {
    const size_t end = text.find('"', at + 1);
    if (end == std::string::npos) break;
    found.push_back(text.substr(at + 1, end - at - 1));
    at = end + 1;
  }
  return found;
}

TEST_CASE("every test that docs/cases.md names exists", "[media]") {
  const std::filesystem::path root = RSERVE_SOURCE_DIR;
  std::string tests;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root / "tests")) {
    if (entry.path().extension() == ".cc") tests += ReadText(entry.path());
  }
  const std::string document = ReadText(root / "docs/cases.md");
  int names = 0;
  for (const std::string& line_name : Quoted(document.substr(document.find("## ")))) {
    // A name may be given by its beginning; one that is broken over lines of a test's source is
    // found by its first words.
    std::string name = line_name.substr(0, line_name.find(" ..."));
    if (name.size() > 40) name.resize(name.rfind(' ', 40));
    CAPTURE(line_name, name);
    CHECK(tests.find("\"" + name) != std::string::npos);
    ++names;
  }
  CHECK(names > 40);
}

}  // namespace
}  // namespace rserve::media
