#include "kernels/cuda/row_launch.cuh"
#include "kernels/embedding/embedding_cuda.h"
#include "kernels/embedding/embedding_kernel.cuh"

namespace rserve::kernels::cuda {

Result Embedding(const EmbeddingArgs& args, StreamRef stream) {
  if (args.rows < 0 || args.width < 0) return Invalid("embedding: rows < 0 or width < 0");
  if (args.width % 8 == 0 && args.item_stride % 8 == 0 &&
      Aligned16(args.table, args.table_stride) && Aligned16(args.y, args.y_stride)) {
    return Launch<EmbeddingKernel<8>>(RowShape(args.rows, args.width / 8, kEmbeddingThreads),
                                      stream, args);
  }
  return Launch<EmbeddingKernel<1>>(RowShape(args.rows, args.width, kEmbeddingThreads), stream,
                                    args);
}

}  // namespace rserve::kernels::cuda
