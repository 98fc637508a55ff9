// The paged keys and values of one stage's layers.

#ifndef RSERVE_SRC_BACKEND_CPU_KV_CACHE_H_
#define RSERVE_SRC_BACKEND_CPU_KV_CACHE_H_

#include <cstdint>
#include <cstdlib>
#include <memory>

#include "absl/status/status.h"
#include "src/backend/cpu/cpu_model.h"

namespace rserve::cpu {

// Layout: [layer][block][kv_head]{ keys [head_dim][block_tokens], values [block_tokens][head_dim]
// }, f32. Keys are stored transposed, as attention reads them.
class KvCache {
 public:
  // Memory is reserved at once and touched as blocks are used. INVALID_ARGUMENT for an impossible
  // geometry, RESOURCE_EXHAUSTED when the memory is not there; both name the numbers.
  absl::Status Init(int64_t kv_heads, int64_t head_dim, int64_t layers, const KvGeometry& geometry);

  const KvGeometry& geometry() const { return geometry_; }
  int64_t block_stride() const { return block_floats_; }
  // Keys of block 0 of a head; block b lies b * block_stride() further.
  float* keys(int64_t layer, int64_t kv_head) const {
    return data_.get() + layer * geometry_.num_blocks * block_floats_ + kv_head * head_floats_;
  }
  float* values(int64_t layer, int64_t kv_head) const {
    return keys(layer, kv_head) + head_floats_ / 2;
  }

 private:
  struct Free {
    void operator()(float* p) const { std::free(p); }
  };
  KvGeometry geometry_;
  int64_t head_floats_ = 0;   // keys and values of one head in one block
  int64_t block_floats_ = 0;  // all heads of one block
  std::unique_ptr<float[], Free> data_;
};

}  // namespace rserve::cpu

#endif  // RSERVE_SRC_BACKEND_CPU_KV_CACHE_H_
