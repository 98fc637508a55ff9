// Reads tensors of a checkpoint under either naming scheme, checks their shapes, and packs them.

#ifndef RSERVE_SRC_BACKEND_CPU_WEIGHT_LOADER_H_
#define RSERVE_SRC_BACKEND_CPU_WEIGHT_LOADER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "src/backend/cpu/compute.h"
#include "src/backend/cpu/cpu_model.h"
#include "src/backend/cpu/weights.h"
#include "src/backend/plan/shard.h"
#include "src/model/weights/checkpoint.h"

namespace rserve::cpu {

// The first prefix under which `name` exists; NOT_FOUND names them all.
absl::StatusOr<std::string> FindPrefix(const model::Checkpoint& checkpoint,
                                       const std::vector<std::string>& prefixes,
                                       const std::string& name);

// A matrix, or some of the rows of one that is put together from several tensors.
struct MatrixSource {
  std::string name;  // of the layer; "<name>.weight" and, where `has_bias`, "<name>.bias"
  int64_t rows = 0;  // of the tensor
  backend::Share share = {0, -1};  // which of them; count below 0: all
};

// Loads one checkpoint. The first error sticks: later calls do nothing and `status` reports it.
class WeightLoader {
 public:
  // What happens to a matrix when weights are asked for in int8.
  enum class Precision : int32_t { kStored, kAsAsked };

  WeightLoader(const model::Checkpoint& checkpoint, const kernels::KernelTable& isa,
               const LoadOptions& options);

  // A vector of f32, widened, or a share of it.
  void Vector(const std::string& name, int64_t size, std::vector<float>* out,
              backend::Share share = {0, -1});
  // The rows of `sources` one after another, [sum of rows][k]. `shape_tail` is how the checkpoint
  // spells k where it has more than one dimension (the patch embedding); empty otherwise.
  // `columns`: which of the k columns; count below 0: all.
  void Matrix(const std::vector<MatrixSource>& sources, int64_t k, bool has_bias, Linear* out,
              Precision precision, const std::vector<int64_t>& shape_tail = {},
              backend::Share columns = {0, -1});
  // Some rows of gate and up of a SwiGLU, paired panel by panel; in the precision
  // asked for.
  void Pair(const std::string& gate, const std::string& up, int64_t rows, backend::Share share,
            int64_t k, bool has_bias, Linear* out);
  // A tensor's bytes as they are.
  void Raw(const std::string& name, int64_t rows, int64_t k, AlignedBytes* out,
           kernels::WeightType* type);

  const absl::Status& status() const { return status_; }
  int64_t packed_bytes() const { return packed_bytes_; }

 private:
  bool Get(const std::string& name, const std::vector<int64_t>& shape, model::TensorView* view);
  // Packs rows given by checkpoint row pointers: of columns, and of the up half when paired.
  void Pack(kernels::WeightType type, int64_t k, const std::vector<const uint8_t*>& rows,
            const std::vector<const uint8_t*>& up_rows, Precision precision, Linear* out);
  void Done(const model::TensorView& view);

  const model::Checkpoint& checkpoint_;
  const kernels::KernelTable& isa_;
  const LoadOptions& options_;
  Compute compute_;
  absl::Status status_;
  int64_t done_bytes_ = 0;
  int64_t packed_bytes_ = 0;
};

}  // namespace rserve::cpu

#endif  // RSERVE_SRC_BACKEND_CPU_WEIGHT_LOADER_H_
