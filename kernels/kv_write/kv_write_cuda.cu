#include "kernels/cuda/row_launch.cuh"
#include "kernels/kv_write/kv_write_cuda.h"
#include "kernels/kv_write/kv_write_kernel.cuh"

namespace rserve::kernels::cuda {

Result KvWrite(const KvWriteArgs& args, StreamRef stream) {
  if (args.rows < 0 || args.kv_heads < 1 || args.head_stride < 1 || args.block_tokens < 1) {
    return Invalid("KV write: rows < 0, or no kv_heads, head_stride or block_tokens");
  }
  const int64_t items = args.kv_heads * args.head_stride;
  if (items >= int64_t{1} << 31) return Unsupported("KV write: a row of 2^31 elements");
  if (args.head_stride % 8 == 0 && Aligned16(args.k, args.stride) &&
      Aligned16(args.v, args.stride) && Aligned16(args.cache, 0)) {
    return Launch<KvWriteKernel<8>>(RowShape(args.rows, items / 8, kKvWriteThreads), stream, args);
  }
  return Launch<KvWriteKernel<1>>(RowShape(args.rows, items, kKvWriteThreads), stream, args);
}

}  // namespace rserve::kernels::cuda
