// Builds the image of a part of the weights in host memory and sends it to the device.

#ifndef RSERVE_SRC_BACKEND_CUDA_IMAGE_BUILDER_H_
#define RSERVE_SRC_BACKEND_CUDA_IMAGE_BUILDER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "src/backend/cuda/weights.h"
#include "src/model/weights/checkpoint.h"

namespace rserve::cuda {

// `count` rows or columns of a tensor and where they go.
struct Run {
  int64_t from = 0;
  int64_t to = 0;
  int64_t count = 0;
};

// Heads of `width` one after another, each to a place of Padded(width): runs from head `first` of
// the tensor on, to head `target` of the image on.
std::vector<Run> HeadRuns(int64_t first, int64_t target, int64_t heads, int64_t width);

// A tensor's rows in a matrix that is put together from several.
struct RowSource {
  std::string
      name;  // of the layer; "<name>.weight" and, where the matrix has biases, "<name>.bias"
  int64_t rows = 0;  // of the tensor
  std::vector<Run> runs;
};

// The first error sticks; later calls do nothing. Pointers are valid after Send.
class ImageBuilder {
 public:
  explicit ImageBuilder(const model::Checkpoint& checkpoint) : checkpoint_(checkpoint) {}

  void Vector(const std::string& name, int64_t size, const Bf16** out);
  // [n][k] of zeros (both padded), filled from the sources' rows and the columns' runs.
  // `shape_tail` is how the checkpoint spells the columns where they have more than one dimension.
  void Matrix(const std::vector<RowSource>& sources, int64_t n, int64_t columns,
              const std::vector<Run>& column_runs, int64_t k, bool has_bias, cuda::Matrix* out,
              const std::vector<int64_t>& shape_tail = {});

  // Moves the image into new device memory and sets the pointers. Waits for the copy.
  absl::Status Send(Timeline* timeline, Memory* memory);
  int64_t bytes() const { return static_cast<int64_t>(image_.size() * sizeof(Bf16)); }

 private:
  bool Get(const std::string& name, const std::vector<int64_t>& shape, model::TensorView* view);
  int64_t Append(int64_t elements);  // its offset, at a multiple of 256 bytes
  void CopyRow(const model::TensorView& view, int64_t from, int64_t count, Bf16* to);

  struct Pointer {
    const Bf16** to;
    int64_t offset;
  };
  const model::Checkpoint& checkpoint_;
  absl::Status status_;
  std::vector<Bf16> image_;
  std::vector<Pointer> pointers_;
  std::vector<float> widened_;
};

}  // namespace rserve::cuda

#endif  // RSERVE_SRC_BACKEND_CUDA_IMAGE_BUILDER_H_
