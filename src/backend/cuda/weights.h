// The model's weights on a device, in bf16, padded so that every row is 16-byte aligned.
//
// Padding. `Padded(n)` rounds up to a multiple of 8. A head of width D lies in Padded(D) columns.
// Padding rows, columns and biases are zero, so that products read and write whole rows and what
// they write into padding is zero again.

#ifndef RSERVE_SRC_BACKEND_CUDA_WEIGHTS_H_
#define RSERVE_SRC_BACKEND_CUDA_WEIGHTS_H_

#include <cstdint>
#include <vector>

#include "src/backend/cuda/device.h"
#include "src/model/spec/model_config.h"

namespace rserve::cuda {

inline int64_t Padded(int64_t n) { return (n + 7) / 8 * 8; }

// [n][k], both padded; with the product's arguments.
struct Matrix {
  const Bf16* w = nullptr;
  const Bf16* bias = nullptr;  // [n], or null
  int64_t n = 0;
  int64_t k = 0;

  ProductArgs Args(int64_t m, const Bf16* x, int64_t x_stride, Bf16* y, int64_t y_stride) const {
    ProductArgs args;
    args.m = m;
    args.n = n;
    args.k = k;
    args.x = x;
    args.x_stride = x_stride;
    args.w = w;
    args.bias = bias;
    args.y = y;
    args.y_stride = y_stride;
    return args;
  }
};

// One transformer block of either tower. Owns its memory.
struct Block {
  Memory memory;
  const Bf16* norm1 = nullptr;
  Matrix qkv;  // query heads, key heads, value heads, each Padded(head_dim) rows
  Matrix proj;
  const Bf16* norm2 = nullptr;
  Matrix gate_up;  // Padded(intermediate) rows of gate, as many of up
  Matrix down;
};

struct VisionWeights {
  Memory memory;
  Matrix patch_embed;
  std::vector<Block> blocks;
  const Bf16* merger_norm = nullptr;
  Matrix merger_fc1;  // its columns: merge_unit groups of Padded(hidden)
  Matrix merger_fc2;
};

struct TextWeights {
  Memory memory;
  const Bf16* embedding = nullptr;  // [vocab][Padded(hidden)]
  std::vector<Block> layers;
  const Bf16* norm = nullptr;
  Matrix head;
};

}  // namespace rserve::cuda

#endif  // RSERVE_SRC_BACKEND_CUDA_WEIGHTS_H_
