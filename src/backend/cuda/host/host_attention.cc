#include "src/backend/cuda/host/host_attention.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "src/model/weights/half.h"

namespace rserve::cuda {

namespace {

using kernels::cuda::AttentionArgs;
using kernels::cuda::Bf16;

// One row of a head over the keys of its segment, which begin at `first`.
void AttendRow(const AttentionArgs& args, int64_t row, int64_t first, int64_t length,
               int64_t head) {
  const auto at = [&](const Bf16* base, int64_t r, int64_t stride, int64_t d) {
    return model::BF16ToF32(base[r * stride + head * args.head_stride + d].bits);
  };
  std::vector<float> weights(static_cast<size_t>(length));
  float largest = -INFINITY, total = 0.0f;
  for (int64_t j = 0; j < length; ++j) {
    float dot = 0.0f;
    for (int64_t d = 0; d < args.head_dim; ++d) {
      dot += at(args.q, row, args.q_stride, d) * at(args.k, first + j, args.kv_stride, d);
    }
    weights[static_cast<size_t>(j)] = dot * args.scale;
    largest = std::max(largest, dot * args.scale);
  }
  for (float& weight : weights) {
    weight = std::exp(weight - largest);
    total += weight;
  }
  for (int64_t d = 0; d < args.head_dim; ++d) {
    float sum = 0.0f;
    for (int64_t j = 0; j < length; ++j) {
      sum += weights[static_cast<size_t>(j)] * at(args.v, first + j, args.kv_stride, d);
    }
    args.out[row * args.out_stride + head * args.head_stride + d] = {model::F32ToBF16(sum / total)};
  }
}

}  // namespace

absl::Status HostAttention::Run(const AttentionArgs& args, int64_t segments, int64_t length) {
  if (length < 16 || args.group != 1) return absl::UnimplementedError("not covered");
  stream_->Enqueue([args, segments, length] {
    for (int64_t row = 0; row < segments * length; ++row) {
      for (int64_t head = 0; head < args.kv_heads; ++head) {
        AttendRow(args, row, row / length * length, length, head);
      }
    }
  });
  return absl::OkStatus();
}

}  // namespace rserve::cuda
