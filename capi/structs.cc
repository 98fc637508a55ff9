#include "capi/structs.h"

#include "absl/strings/str_cat.h"
#include "rserve/rserve.h"

namespace rserve::capi {

absl::Status CheckStructSize(const char* name, size_t size, size_t first_size) {
  if (size >= first_size && size <= kMaxStructSize) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      name, " has a size of ", size, " bytes, must be ", first_size, " to ", kMaxStructSize,
      " (struct_size is set by the _INIT macro, the size of an event or part by sizeof)"));
}

absl::Status CheckTail(const char* name, const void* data, size_t known, size_t size) {
  const auto* bytes = static_cast<const unsigned char*>(data);
  for (size_t i = known; i < size; ++i) {
    if (bytes[i] == 0) continue;
    return absl::UnimplementedError(
        absl::StrCat(name, " of ", size, " bytes sets byte ", i, "; rserve ", rserve_version(),
                     " knows ", known, " bytes of it (a newer header than the library?)"));
  }
  return absl::OkStatus();
}

}  // namespace rserve::capi
