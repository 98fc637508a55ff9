// The header of a safetensors file: 8 bytes of length, that many bytes of JSON, then the data.

#ifndef RSERVE_SRC_MODEL_WEIGHTS_SAFETENSORS_HEADER_H_
#define RSERVE_SRC_MODEL_WEIGHTS_SAFETENSORS_HEADER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "src/model/weights/checkpoint.h"

namespace rserve::model {

// The format's own limit.
inline constexpr uint64_t kMaxSafetensorsHeaderBytes = 100'000'000;

struct TensorEntry {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;  // empty: a scalar
  int64_t elements = 0;
  uint64_t begin = 0;  // bytes from the start of the file
};

// Reads and checks the header of a whole file. `file_name` is for errors. The tensors come in order
// of their data, which they cover from the header's end to the file's without gap or overlap.
// INVALID_ARGUMENT names the tensor and the number; UNIMPLEMENTED a dtype that is valid in the
// format and not supported here (integers, FP8, F64).
absl::StatusOr<std::vector<TensorEntry>> ParseSafetensorsHeader(absl::Span<const uint8_t> file,
                                                                const std::string& file_name);

}  // namespace rserve::model

#endif  // RSERVE_SRC_MODEL_WEIGHTS_SAFETENSORS_HEADER_H_
