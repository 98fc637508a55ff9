#include "src/backend/cpu/kv_cache.h"

#include "absl/strings/str_cat.h"

namespace rserve::cpu {

absl::Status KvCache::Init(int64_t kv_heads, int64_t head_dim, int64_t layers,
                           const KvGeometry& geometry) {
  if (geometry.num_blocks < 1 || geometry.block_tokens < 1) {
    return absl::InvalidArgumentError(absl::StrCat("KV geometry: num_blocks ", geometry.num_blocks,
                                                   " and block_tokens ", geometry.block_tokens,
                                                   " must be at least 1"));
  }
  geometry_ = geometry;
  int64_t floats = 0;
  bool overflow =
      __builtin_mul_overflow(int64_t{2} * head_dim, int64_t{geometry.block_tokens}, &head_floats_);
  overflow |= __builtin_mul_overflow(head_floats_, kv_heads, &block_floats_);
  overflow |= __builtin_mul_overflow(block_floats_, int64_t{geometry.num_blocks}, &floats);
  overflow |= __builtin_mul_overflow(floats, layers, &floats);
  int64_t bytes = 0;
  overflow |= __builtin_mul_overflow(floats, int64_t{sizeof(float)}, &bytes);
  // Zeroed memory comes from the system page by page as it is touched.
  if (!overflow && floats > 0) {
    data_.reset(static_cast<float*>(std::calloc(static_cast<size_t>(floats), sizeof(float))));
  }
  if (overflow || (floats > 0 && data_ == nullptr)) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no memory for the KV cache of ", layers, " layers, ", geometry.num_blocks,
                     " blocks (num_blocks) of ", geometry.block_tokens, " tokens (block_tokens)"));
  }
  return absl::OkStatus();
}

}  // namespace rserve::cpu
