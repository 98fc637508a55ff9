// Greps the sources: who may include whom, where CUDA's headers may be, and who may throw.
//
//   capi -> runtime -> core        runtime -> backend -> kernels        sim -> core
//   model/spec is a leaf; backends never include each other; core includes Abseil and std only

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/catch.h"

namespace rserve::test {
namespace {

namespace fs = std::filesystem;

struct Layer {
  std::string folder;                // its files, by prefix
  std::vector<std::string> allowed;  // prefixes of quoted includes
};

// The longest prefix decides. A layer that is not listed is not restricted.
const Layer kLayers[] = {
    {"include/rserve/cc/", {"rserve/cc/", "absl/"}},
    {"src/core/", {"rserve/cc/", "src/core/", "absl/"}},
    {"src/sim/",
     {"rserve/cc/", "src/sim/", "src/core/", "src/model/json/", "src/model/spec/", "absl/",
      "nlohmann/"}},
    {"src/model/spec/", {"src/model/spec/", "src/model/json/", "absl/", "nlohmann/"}},
    {"src/model/json/", {"src/model/json/", "absl/", "nlohmann/"}},
    {"src/backend/plan/",
     {"src/backend/backend.h", "src/backend/plan/", "src/model/spec/", "absl/"}},
    {"src/backend/cpu/",
     {"src/backend/backend.h", "src/backend/plan/", "src/backend/cpu/", "src/model/", "kernels/",
      "rserve/cc/", "absl/"}},
    {"src/backend/cuda/",
     {"src/backend/backend.h", "src/backend/plan/", "src/backend/cuda/", "src/model/", "kernels/",
      "rserve/cc/", "absl/"}},
    {"src/backend/host/",
     {"src/backend/backend.h", "src/backend/host/", "src/model/", "rserve/", "absl/"}},
    {"kernels/", {"kernels/"}},
    {"src/runtime/",
     {"src/runtime/", "src/backend/", "src/model/", "src/media/", "src/core/", "rserve/cc/",
      "absl/"}},
    {"src/media/", {"src/media/", "src/model/spec/", "absl/"}},
    {"capi/", {"capi/", "src/runtime/", "rserve/", "absl/"}},
};

// `throw` and `try` belong to the C boundary (capi/) and to the one guard at the top of each
// thread.
const std::set<std::string> kMayThrow = {"src/runtime/exception_guard.cc"};

bool IsSource(const fs::path& path) {
  static const std::set<std::string> kExtensions = {".h", ".cc", ".cu", ".cuh", ".hpp", ".inc"};
  return kExtensions.contains(path.extension().string());
}

std::vector<std::string> Sources() {
  const fs::path root = RSERVE_SOURCE_DIR;
  std::vector<std::string> files;
  for (const char* folder : {"include", "src", "kernels", "capi"}) {
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
      if (entry.is_regular_file() && IsSource(entry.path())) {
        files.push_back(fs::relative(entry.path(), root).generic_string());
      }
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::string ReadAll(const std::string& file) {
  std::ostringstream text;
  text << std::ifstream(fs::path(RSERVE_SOURCE_DIR) / file, std::ios::binary).rdbuf();
  return text.str();
}

bool StartsWith(const std::string& text, const std::string& prefix) {
  return text.compare(0, prefix.size(), prefix) == 0;
}

// The text without comments, string and character literals; lines stay.
std::string CodeOnly(const std::string& text) {
  std::string code;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text.compare(i, 2, "//") == 0) {
      while (i < text.size() && text[i] != '\n') ++i;
      code += '\n';
    } else if (text.compare(i, 2, "/*") == 0) {
      const size_t end = text.find("*/", i + 2);
      i = end == std::string::npos ? text.size() : end + 1;
      code += ' ';
    } else if (text.compare(i, 2, "R\"") == 0) {
      const size_t open = text.find('(', i);
      std::string close(1, ')');
      close.append(text, i + 2, open - i - 2).append(1, '"');
      const size_t end = text.find(close, open);
      i = end == std::string::npos ? text.size() : end + close.size() - 1;
      code += ' ';
    } else if (text[i] == '"' || (text[i] == '\'' && (i == 0 || !std::isalnum(text[i - 1])))) {
      const char quote = text[i];
      for (++i; i < text.size() && text[i] != quote && text[i] != '\n'; ++i) {
        if (text[i] == '\\') ++i;
      }
      code += ' ';
    } else {
      code += text[i];
    }
  }
  return code;
}

bool HasWord(const std::string& code, const std::string& word) {
  for (size_t at = code.find(word); at != std::string::npos; at = code.find(word, at + 1)) {
    const auto part = [&](size_t i) {
      return i < code.size() &&
             (std::isalnum(static_cast<unsigned char>(code[i])) || code[i] == '_');
    };
    if ((at == 0 || !part(at - 1)) && !part(at + word.size())) return true;
  }
  return false;
}

struct Include {
  std::string path;
  bool quoted = false;
};

std::vector<Include> Includes(const std::string& text) {
  std::vector<Include> includes;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const size_t hash = line.find_first_not_of(" \t");
    if (hash == std::string::npos || line[hash] != '#') continue;
    const size_t word = line.find("include", hash);
    if (word == std::string::npos) continue;
    const size_t open = line.find_first_of("\"<", word);
    if (open == std::string::npos) continue;
    const size_t close = line.find_first_of("\">", open + 1);
    if (close == std::string::npos) continue;
    includes.push_back({line.substr(open + 1, close - open - 1), line[open] == '"'});
  }
  return includes;
}

const Layer* LayerOf(const std::string& file) {
  const Layer* best = nullptr;
  for (const Layer& layer : kLayers) {
    if (StartsWith(file, layer.folder) &&
        (best == nullptr || layer.folder.size() > best->folder.size())) {
      best = &layer;
    }
  }
  return best;
}

TEST_CASE("every quoted include points down the layers") {
  for (const std::string& file : Sources()) {
    const Layer* layer = LayerOf(file);
    if (layer == nullptr) continue;
    for (const Include& include : Includes(ReadAll(file))) {
      if (!include.quoted) continue;
      INFO(file << " includes " << include.path);
      CHECK(std::any_of(layer->allowed.begin(), layer->allowed.end(),
                        [&](const auto& prefix) { return StartsWith(include.path, prefix); }));
    }
  }
}

TEST_CASE("the core includes no thread, clock, random, environment or file header") {
  const std::set<std::string> banned = {"thread",     "mutex",  "chrono",   "random",  "fstream",
                                        "iostream",   "future", "atomic",   "ctime",   "cstdio",
                                        "filesystem", "time.h", "unistd.h", "stdio.h", "pthread.h"};
  for (const std::string& file : Sources()) {
    if (!StartsWith(file, "src/core/")) continue;
    for (const Include& include : Includes(ReadAll(file))) {
      INFO(file << " includes " << include.path);
      CHECK_FALSE(banned.contains(include.path));
    }
    INFO(file);
    CHECK_FALSE(HasWord(CodeOnly(ReadAll(file)), "getenv"));
  }
}

TEST_CASE("CUDA's headers are included in .cu, .cuh and the CUDA backend only") {
  for (const std::string& file : Sources()) {
    const std::string extension = fs::path(file).extension().string();
    if (extension == ".cu" || extension == ".cuh" || StartsWith(file, "src/backend/cuda/"))
      continue;
    for (const Include& include : Includes(ReadAll(file))) {
      INFO(file << " includes " << include.path);
      CHECK_FALSE(StartsWith(include.path, "cuda"));
      CHECK_FALSE(StartsWith(include.path, "cublas"));
    }
  }
}

TEST_CASE("nothing throws or catches outside the C boundary and the threads' guards") {
  for (const std::string& file : Sources()) {
    if (kMayThrow.contains(file) || StartsWith(file, "capi/")) continue;
    const std::string code = CodeOnly(ReadAll(file));
    INFO(file);
    CHECK_FALSE(HasWord(code, "throw"));
    CHECK_FALSE(HasWord(code, "try"));
    CHECK_FALSE(HasWord(code, "catch"));
  }
}

}  // namespace
}  // namespace rserve::test
