// Writes a safetensors file tensor by tensor, without holding more than a block of it in memory.

#ifndef RSERVE_SRC_MODEL_WEIGHTS_SAFETENSORS_WRITER_H_
#define RSERVE_SRC_MODEL_WEIGHTS_SAFETENSORS_WRITER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "src/model/weights/checkpoint.h"

namespace rserve::model {

// One tensor of the file to be written.
struct TensorSpec {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;  // sizes of at least 1
};

// For one thread. The bytes go to "<path>.part", which Finish renames to `path`; a writer that is
// destroyed before Finish removes it, so that `path` never holds half a file.
class SafetensorsWriter {
 public:
  // The header names all tensors, so they are declared first; their values follow in this order.
  // `metadata` becomes `__metadata__` ({"format": "pt"} is what transformers expects).
  // INVALID_ARGUMENT for a bad shape or a name that is given twice or not of printable ASCII;
  // otherwise the system's error.
  static absl::StatusOr<std::unique_ptr<SafetensorsWriter>> Create(
      const std::string& path, absl::Span<const TensorSpec> tensors,
      const std::map<std::string, std::string>& metadata = {{"format", "pt"}});

  ~SafetensorsWriter();

  // Appends the next values in the declared order, converted to the dtype of the tensor they fall
  // in (to the nearest, ties to even). A call may hold a part of a tensor, or several tensors.
  // OUT_OF_RANGE for more values than were declared. After an error only destruction is left.
  absl::Status Append(absl::Span<const float> values);

  // Completes the file. FAILED_PRECONDITION when values are missing, with the tensor they belong
  // to.
  absl::Status Finish();

 private:
  struct Impl;
  explicit SafetensorsWriter(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace rserve::model

#endif  // RSERVE_SRC_MODEL_WEIGHTS_SAFETENSORS_WRITER_H_
