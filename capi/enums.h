// Enums across the ABI.

#ifndef RSERVE_CAPI_ENUMS_H_
#define RSERVE_CAPI_ENUMS_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace rserve::capi {

inline absl::Status UnknownValue(const char* field, int64_t value) {
  return absl::InvalidArgumentError(absl::StrCat(field, " has the unknown value ", value));
}

// An enum whose 0 is "default" and whose value n + 1 is the C++ enum's n, up to `last`.
template <typename T>
absl::Status ReadEnum(const char* field, int32_t value, T last, std::optional<T>* out) {
  if (value == 0) return absl::OkStatus();
  if (value < 0 || value > static_cast<int32_t>(last) + 1) return UnknownValue(field, value);
  *out = static_cast<T>(value - 1);
  return absl::OkStatus();
}

// INVALID_ARGUMENT for a list of entries without memory.
inline absl::Status CheckList(const char* field, const void* list, size_t count, size_t most) {
  if (count == 0) return absl::OkStatus();
  if (list == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(field, " is NULL with ", count, " entries"));
  }
  if (count <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, " has ", count, " entries, at most ", most, " are taken"));
}

}  // namespace rserve::capi

#endif  // RSERVE_CAPI_ENUMS_H_
