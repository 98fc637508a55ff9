// EmbeddingStore: pictures' embeddings between the encoders and the first stage, which stay on the
// devices.
//
// Row r of the store (backend::RowStore says whose it is) lies once on each device of the first
// stage, since every rank holds all rows: [capacity][Padded(hidden)] bf16, as both sides compute
// with them. An encoder's last work on a unit is the rows' way there, by a copy within the device
// or from device to device; the first stage's merge kernel reads them where they are. So the bits
// are those of the way through host memory in f32, which bf16 fits into.
//
// No stream waits for another: the engine begins a stage's work on a unit when the unit's encode
// has been reported done, that is, when the encoder's stream is through; and rows are lent again
// when all work that reads them has been reported done.

#ifndef RSERVE_SRC_BACKEND_CUDA_EMBEDDING_STORE_H_
#define RSERVE_SRC_BACKEND_CUDA_EMBEDDING_STORE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "src/backend/cuda/device.h"

namespace rserve::cuda {

// Immutable; the contents are the encoders' and the stage's. The devices outlive it.
class EmbeddingStore {
 public:
  // On each of `devices`, by rank of the first stage. RESOURCE_EXHAUSTED names rows and bytes.
  static absl::StatusOr<std::shared_ptr<EmbeddingStore>> Make(const std::vector<Device*>& devices,
                                                              int64_t capacity,
                                                              int64_t hidden_size);

  int64_t capacity() const { return capacity_; }  // rows
  int64_t width() const { return width_; }        // elements a row: Padded(hidden)
  int64_t hidden_size() const { return hidden_size_; }
  size_t copies() const { return copies_.size(); }
  Device* device(size_t copy) const { return copies_[copy].device; }
  Bf16* Row(size_t copy, int64_t row) const {
    return static_cast<Bf16*>(copies_[copy].memory.data()) + row * width_;
  }

 private:
  struct Copy {
    Device* device = nullptr;
    Memory memory;
  };
  EmbeddingStore(std::vector<Copy> copies, int64_t capacity, int64_t hidden_size);

  const std::vector<Copy> copies_;
  const int64_t capacity_;
  const int64_t hidden_size_;
  const int64_t width_;
};

}  // namespace rserve::cuda

#endif  // RSERVE_SRC_BACKEND_CUDA_EMBEDDING_STORE_H_
