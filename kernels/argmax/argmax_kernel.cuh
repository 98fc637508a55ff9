// Argmax and log-probability; see argmax_cuda.h.

#ifndef RSERVE_KERNELS_ARGMAX_ARGMAX_KERNEL_CUH_
#define RSERVE_KERNELS_ARGMAX_ARGMAX_KERNEL_CUH_

#include "kernels/argmax/argmax_cuda.h"
#include "kernels/cuda/device.cuh"

namespace rserve::kernels::cuda {

inline constexpr int kArgMaxThreads = 512;
inline constexpr int kArgMaxWarps = kArgMaxThreads / kWarp;

struct Candidate {
  float value;
  int32_t index;  // -1: none
};

// Whether `b` goes before `a`.
__device__ inline bool Beats(const Candidate& b, const Candidate& a) {
  if (b.index < 0) return false;
  return a.index < 0 || b.value > a.value || (b.value == a.value && b.index < a.index);
}

__device__ inline Candidate BestOfWarp(Candidate best) {
  RSERVE_UNROLL
  for (int mask = kWarp / 2; mask > 0; mask /= 2) {
    const Candidate other{ShuffleXor(best.value, mask), ShuffleXor(best.index, mask)};
    if (Beats(other, best)) best = other;
  }
  return best;
}

__global__ void __launch_bounds__(kArgMaxThreads) ArgMaxKernel(const ArgMaxArgs args) {
  const float* row = args.logits + BlockX() * args.stride;
  const auto count = static_cast<int32_t>(args.count);
  auto* candidates = reinterpret_cast<Candidate*>(Shared());

  Candidate best{0.0f, -1};
  for (int32_t i = ThreadId(); i < count; i += kArgMaxThreads) {
    const float value = row[i];
    // False for NaN; the first of equals stays.
    if (value > best.value || (best.index < 0 && value == value)) best = {value, i};
  }
  best = BestOfWarp(best);
  if (Lane() == 0) candidates[Warp()] = best;
  SyncThreads();
  best = candidates[0];
  for (int w = 1; w < kArgMaxWarps; ++w) {
    if (Beats(candidates[w], best)) best = candidates[w];
  }
  SyncThreads();  // the sums take the candidates' place

  float sum = 0.0f;
  for (int32_t i = ThreadId(); i < count; i += kArgMaxThreads) sum += Exp(row[i] - best.value);
  sum = BlockSum(sum, reinterpret_cast<float*>(Shared()));
  if (ThreadId() == 0) {
    args.out[BlockX()] = {best.index, best.index < 0 ? Infinity() - Infinity() : -Log(sum)};
  }
}

}  // namespace rserve::kernels::cuda

#endif  // RSERVE_KERNELS_ARGMAX_ARGMAX_KERNEL_CUH_
