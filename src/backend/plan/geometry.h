// What every backend's stages are made with.

#ifndef RSERVE_SRC_BACKEND_PLAN_GEOMETRY_H_
#define RSERVE_SRC_BACKEND_PLAN_GEOMETRY_H_

#include <cstdint>

namespace rserve::backend {

struct LayerRange {
  int32_t begin = 0;
  int32_t end = 0;  // exclusive
};

// A paged KV cache: each stage owns the memory for its layers. block_tokens may be any number;
// multiples of 16 are read fastest.
struct KvGeometry {
  int32_t num_blocks = 0;
  int32_t block_tokens = 16;
};

// Entries of one call to a stage name at most so many times num_blocks blocks together: what a
// backend has room for.
inline constexpr int64_t kMaxTableShare = 2;

}  // namespace rserve::backend

#endif  // RSERVE_SRC_BACKEND_PLAN_GEOMETRY_H_
