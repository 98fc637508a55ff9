#include "kernels/attention/attention_cuda.h"
#include "kernels/attention/attention_kernel.cuh"
#include "kernels/cuda/launch.cuh"

namespace rserve::kernels::cuda {

namespace {

template <int kDim, bool kPaged>
Result LaunchFor(const AttentionParams& params, StreamRef stream) {
  LaunchShape shape;
  shape.grid_x = params.args.num_tiles;
  shape.grid_y = params.args.kv_heads;
  shape.threads = kAttentionThreads;
  shape.shared_bytes =
      4 * kAttentionTileKeys * kAttentionRow<kDim> * static_cast<int>(sizeof(Bf16));
  return Launch<AttentionKernel<kDim, kPaged>>(shape, stream, params);
}

template <bool kPaged>
Result Attend(const AttentionArgs& args, StreamRef stream) {
  if (args.num_tiles < 0 || args.kv_heads < 1 || args.group < 1) {
    return Invalid("attention: num_tiles < 0, kv_heads < 1 or group < 1");
  }
  if (args.head_dim < 8 || args.head_dim % 8 != 0) {
    return Invalid("attention: head_dim is not a positive multiple of 8");
  }
  if (!Aligned16(args.q, args.q_stride) || !Aligned16(args.out, args.out_stride) ||
      args.head_stride % 8 != 0) {
    return Invalid("attention: queries or outputs are not 16-byte aligned");
  }
  AttentionParams params;
  params.args = args;
  params.group = MakeDivider(args.group);
  params.scale_log2 = args.scale * 1.44269504f;
  if constexpr (kPaged) {
    if (args.block_tokens < 1) return Invalid("attention: block_tokens < 1");
    if (!Aligned16(args.cache, args.cache_stride)) {
      return Invalid("attention: the cache is not 16-byte aligned");
    }
    params.block_tokens = MakeDivider(args.block_tokens);
  } else if (!Aligned16(args.k, args.kv_stride) || !Aligned16(args.v, args.kv_stride)) {
    return Invalid("attention: keys or values are not 16-byte aligned");
  }
  if (args.head_dim <= 32) return LaunchFor<32, kPaged>(params, stream);
  if (args.head_dim <= 64) return LaunchFor<64, kPaged>(params, stream);
  if (args.head_dim <= 80) return LaunchFor<80, kPaged>(params, stream);
  if (args.head_dim <= kAttentionMaxHeadDim) return LaunchFor<128, kPaged>(params, stream);
  return Unsupported("attention: head_dim is above 128");
}

}  // namespace

Result AttendSegments(const AttentionArgs& args, StreamRef stream) {
  return Attend<false>(args, stream);
}

Result AttendPaged(const AttentionArgs& args, StreamRef stream) {
  return Attend<true>(args, stream);
}

}  // namespace rserve::kernels::cuda
