// Structs across versions: the caller's struct_size decides what is read and written.

#ifndef RSERVE_CAPI_STRUCTS_H_
#define RSERVE_CAPI_STRUCTS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "absl/status/status.h"

namespace rserve::capi {

// No struct will ever come near this; a size above it is not a size.
inline constexpr size_t kMaxStructSize = 4096;

// INVALID_ARGUMENT when `size` is not a possible size of the struct, whose first version had
// `first_size` bytes.
absl::Status CheckStructSize(const char* name, size_t size, size_t first_size);

// UNIMPLEMENTED when a byte of the caller's struct that this library does not know is set.
absl::Status CheckTail(const char* name, const void* data, size_t known, size_t size);

// Copies a caller's struct of `size` bytes: what it lacks is 0, what this library does not know
// must be.
template <typename T>
absl::Status CopySizedIn(const char* name, const void* from, size_t size, size_t first_size,
                         T* to) {
  static_assert(std::is_trivially_copyable_v<T>);
  if (absl::Status status = CheckStructSize(name, size, first_size); !status.ok()) return status;
  if (absl::Status status = CheckTail(name, from, sizeof(T), size); !status.ok()) return status;
  std::memset(to, 0, sizeof(T));
  std::memcpy(to, from, std::min(size, sizeof(T)));
  return absl::OkStatus();
}

// The same for a struct that begins with its struct_size.
template <typename T>
absl::Status CopyIn(const char* name, const T* from, size_t first_size, T* to) {
  uint32_t size = 0;
  std::memcpy(&size, from, sizeof(size));
  absl::Status status = CopySizedIn(name, from, size, first_size, to);
  if (status.ok()) to->struct_size = sizeof(T);
  return status;
}

// Writes an output struct up to the caller's struct_size, which stays as it is; bytes that this
// library does not know become 0.
template <typename T>
absl::Status CopyOut(const char* name, const T& from, size_t first_size, T* to) {
  static_assert(std::is_trivially_copyable_v<T>);
  uint32_t size = 0;
  std::memcpy(&size, to, sizeof(size));
  if (absl::Status status = CheckStructSize(name, size, first_size); !status.ok()) return status;
  auto* bytes = reinterpret_cast<unsigned char*>(to);
  std::memcpy(bytes, &from, std::min<size_t>(size, sizeof(T)));
  if (size > sizeof(T)) std::memset(bytes + sizeof(T), 0, size - sizeof(T));
  std::memcpy(bytes, &size, sizeof(size));
  return absl::OkStatus();
}

}  // namespace rserve::capi

#endif  // RSERVE_CAPI_STRUCTS_H_
