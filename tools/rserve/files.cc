#include "tools/rserve/files.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace rserve::tool {
namespace {

struct FileCloser {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, FileCloser>;

// Reads into a std::string or a std::vector<uint8_t>.
template <typename Bytes>
absl::StatusOr<Bytes> ReadAll(const std::string& path, int64_t max_bytes) {
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);
  if (error) return absl::NotFoundError(absl::StrCat(path, ": ", error.message()));
  if (size > static_cast<uint64_t>(max_bytes)) {
    return absl::ResourceExhaustedError(
        absl::StrCat(path, ": ", size, " bytes, more than the limit of ", max_bytes));
  }
  File file(std::fopen(path.c_str(), "rb"));
  if (file == nullptr) return absl::NotFoundError(absl::StrCat(path, ": ", std::strerror(errno)));
  Bytes bytes;
  bytes.resize(size);
  if (std::fread(bytes.data(), 1, bytes.size(), file.get()) != bytes.size()) {
    return absl::DataLossError(absl::StrCat(path, ": ended before its ", size, " bytes"));
  }
  return bytes;
}

}  // namespace

absl::StatusOr<std::string> ReadTextFile(const std::string& path, int64_t max_bytes) {
  return ReadAll<std::string>(path, max_bytes);
}

absl::StatusOr<std::vector<uint8_t>> ReadBinaryFile(const std::string& path, int64_t max_bytes) {
  return ReadAll<std::vector<uint8_t>>(path, max_bytes);
}

absl::Status WriteFile(const std::string& path, absl::string_view bytes) {
  std::FILE* file = std::fopen(path.c_str(), "wb");
  if (file == nullptr) {
    return absl::UnavailableError(absl::StrCat(path, ": ", std::strerror(errno)));
  }
  const bool written = std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size();
  if (std::fclose(file) != 0 || !written) {
    return absl::UnavailableError(absl::StrCat(path, ": ", std::strerror(errno)));
  }
  return absl::OkStatus();
}

absl::Status CheckOutputs(absl::Span<const std::string> outputs,
                          absl::Span<const std::string> inputs) {
  std::vector<std::string> taken(inputs.begin(), inputs.end());
  for (const std::string& output : outputs) {
    if (output.empty()) continue;
    for (const std::string& other : taken) {
      std::error_code error;
      if (output == other || std::filesystem::equivalent(output, other, error)) {
        return absl::InvalidArgumentError(
            absl::StrCat(output, ": the output would overwrite ", other));
      }
    }
    const bool exists = ::access(output.c_str(), F_OK) == 0;
    const std::string folder = FolderOf(output).empty() ? "." : FolderOf(output);
    if (::access(exists ? output.c_str() : folder.c_str(), W_OK) != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(output, ": cannot be written: ", std::strerror(errno)));
    }
    taken.push_back(output);
  }
  return absl::OkStatus();
}

absl::Status WriteFloats(const std::string& path, absl::Span<const float> values) {
  return WriteFile(path, absl::string_view(reinterpret_cast<const char*>(values.data()),
                                           values.size() * sizeof(float)));
}

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash + 1);
}

}  // namespace rserve::tool
