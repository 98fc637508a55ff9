#include "src/backend/cuda/embedding_store.h"

#include "absl/strings/str_cat.h"
#include "src/backend/cuda/weights.h"

namespace rserve::cuda {

absl::StatusOr<std::shared_ptr<EmbeddingStore>> EmbeddingStore::Make(
    const std::vector<Device*>& devices, int64_t capacity, int64_t hidden_size) {
  int64_t bytes = 0;
  if (__builtin_mul_overflow(capacity, Padded(hidden_size) * int64_t{sizeof(Bf16)}, &bytes)) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no device memory for ", capacity, " rows of embeddings (embedding_bytes)"));
  }
  std::vector<Copy> copies;
  for (Device* device : devices) {
    absl::StatusOr<Memory> memory = Memory::Make(device, Memory::Kind::kDevice, bytes);
    if (!memory.ok()) {
      return absl::Status(memory.status().code(),
                          absl::StrCat(capacity, " rows of embeddings (embedding_bytes): ",
                                       memory.status().message()));
    }
    copies.push_back({device, *std::move(memory)});
  }
  return std::shared_ptr<EmbeddingStore>(
      new EmbeddingStore(std::move(copies), capacity, hidden_size));
}

EmbeddingStore::EmbeddingStore(std::vector<Copy> copies, int64_t capacity, int64_t hidden_size)
    : copies_(std::move(copies)),
      capacity_(capacity),
      hidden_size_(hidden_size),
      width_(Padded(hidden_size)) {}

}  // namespace rserve::cuda
