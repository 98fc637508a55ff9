// The likeliest token of each row of logits and its probability, on a device.
//
// As argmax.h: the lowest index among equals, NaNs passed over, -1 when there is nothing else. The
// probability's sum is taken in f32: thread t adds exp(x - max) of elements t, t + 512, ...; then
// lanes by a tree, then warps in order: within 1e-5 of the exact logarithm for 2^20 logits.
//
// Launch: one block of 512 threads a row, 128 bytes of shared memory. Two passes over the row; the
// second finds it in the L2 cache. 34 registers a thread (40 as they are handed out) let 3 blocks,
// 1536 of 2048 threads, be resident on an SM; a call has as many blocks as prompts end in it.

#ifndef RSERVE_KERNELS_ARGMAX_ARGMAX_CUDA_H_
#define RSERVE_KERNELS_ARGMAX_ARGMAX_CUDA_H_

#include <cstdint>

#include "kernels/cuda/types.h"

namespace rserve::kernels::cuda {

struct Likeliest {
  int32_t index = -1;
  // Natural logarithm; NaN when index is -1, when a logit is NaN or when the largest is not finite.
  float log_probability = 0.0f;
};

struct ArgMaxArgs {
  const float* logits = nullptr;  // [rows][stride]
  int64_t stride = 0;
  Likeliest* out = nullptr;  // [rows]
  int64_t rows = 0;
  int64_t count = 0;  // below 2^31
};
Result ArgMax(const ArgMaxArgs& args, StreamRef stream);

}  // namespace rserve::kernels::cuda

#endif  // RSERVE_KERNELS_ARGMAX_ARGMAX_CUDA_H_
