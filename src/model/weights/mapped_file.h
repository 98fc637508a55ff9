// A file mapped read-only into memory.

#ifndef RSERVE_SRC_MODEL_WEIGHTS_MAPPED_FILE_H_
#define RSERVE_SRC_MODEL_WEIGHTS_MAPPED_FILE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace rserve::model {

// Immutable; any thread. The file must not be cut while it is mapped: reading past its new end is a
// fault of the process (SIGBUS), as with every mapping.
class MappedFile {
 public:
  // NOT_FOUND when there is no such file, INVALID_ARGUMENT when it is no regular file, otherwise
  // the status of the system's error. An empty file maps to no bytes.
  static absl::StatusOr<std::unique_ptr<MappedFile>> Open(const std::string& path);

  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const uint8_t* data() const { return data_; }
  size_t size() const { return size_; }

  // Gives the memory of a mapped file's bytes back; they are read from the file when touched again.
  static void Release(const uint8_t* data, size_t size);

 private:
  MappedFile(const uint8_t* data, size_t size) : data_(data), size_(size) {}

  const uint8_t* data_;
  size_t size_;
};

}  // namespace rserve::model

#endif  // RSERVE_SRC_MODEL_WEIGHTS_MAPPED_FILE_H_
