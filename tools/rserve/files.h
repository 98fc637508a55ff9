// Whole files in and out, with the file's name in every error.

#ifndef RSERVE_TOOLS_RSERVE_FILES_H_
#define RSERVE_TOOLS_RSERVE_FILES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace rserve::tool {

// NOT_FOUND for a missing file; RESOURCE_EXHAUSTED for one over `max_bytes`.
absl::StatusOr<std::string> ReadTextFile(const std::string& path,
                                         int64_t max_bytes = int64_t{1} << 30);
absl::StatusOr<std::vector<uint8_t>> ReadBinaryFile(const std::string& path,
                                                    int64_t max_bytes = int64_t{1} << 30);
absl::Status WriteFile(const std::string& path, absl::string_view bytes);
absl::Status WriteFloats(const std::string& path, absl::Span<const float> values);

// Whether results can be written to these files later, so that no work is lost: each can be created
// or replaced, and is neither one of the `inputs` nor another output. Empty names are skipped.
absl::Status CheckOutputs(absl::Span<const std::string> outputs,
                          absl::Span<const std::string> inputs);

// The folder of a file's path, with the slash at its end; empty for a bare name.
std::string FolderOf(const std::string& path);

}  // namespace rserve::tool

#endif  // RSERVE_TOOLS_RSERVE_FILES_H_
