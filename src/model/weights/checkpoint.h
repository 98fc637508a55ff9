// A checkpoint folder's tensors, memory-mapped: model.safetensors or shards with an index.

#ifndef RSERVE_SRC_MODEL_WEIGHTS_CHECKPOINT_H_
#define RSERVE_SRC_MODEL_WEIGHTS_CHECKPOINT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace rserve::model {

enum class DType : int32_t { kF32 = 0, kF16 = 1, kBF16 = 2 };
int64_t DTypeSize(DType dtype);           // bytes of one element
std::string_view DTypeName(DType dtype);  // "F32", "F16", "BF16"

// A view of one tensor, row-major and contiguous. `data` may be unaligned to the element size; it
// stays valid as long as the Checkpoint does.
struct TensorView {
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  const uint8_t* data = nullptr;
  int64_t elements = 0;
};

// Immutable after opening; const methods may be called from any thread.
class Checkpoint {
 public:
  // Maps the folder's safetensors file(s). Every header is checked before use: its length against
  // the file, each tensor's dtype, its shape's product (overflow included) against its byte span,
  // each span against the file, spans that overlap, names given twice or missing from the shard
  // that the index names. Errors say which file, which tensor and which number is wrong.
  static absl::StatusOr<std::unique_ptr<Checkpoint>> Open(const std::string& folder);

  ~Checkpoint();

  bool Has(std::string_view name) const;
  // NOT_FOUND names the tensor; INVALID_ARGUMENT when the shape differs, with both shapes.
  absl::StatusOr<TensorView> Get(std::string_view name, absl::Span<const int64_t> shape) const;
  // All names, sorted.
  std::vector<std::string> Names() const;
  absl::StatusOr<TensorView> Get(std::string_view name) const;  // any shape
  int64_t total_bytes() const;
  // The caller has what it wanted of a tensor: its pages no longer count as the process's memory.
  // They come back from the file when they are read again.
  void Release(const TensorView& view) const;

 private:
  struct Impl;
  explicit Checkpoint(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Widens `count` elements of `view` starting at element `begin` into f32.
void WidenToF32(const TensorView& view, int64_t begin, int64_t count, float* out);

}  // namespace rserve::model

#endif  // RSERVE_SRC_MODEL_WEIGHTS_CHECKPOINT_H_
