// Stands for cuDNN on a HostDevice's stream: softmax attention as it is defined, in f32.

#ifndef RSERVE_SRC_BACKEND_CUDA_HOST_HOST_ATTENTION_H_
#define RSERVE_SRC_BACKEND_CUDA_HOST_HOST_ATTENTION_H_

#include "kernels/cuda/host/stream.h"
#include "src/backend/cuda/fused_attention.h"

namespace rserve::cuda {

class HostAttention final : public FusedAttention {
 public:
  explicit HostAttention(kernels::cuda::host::Stream* stream) : stream_(stream) {}
  // Segments of less than 16 rows are not covered, so that callers meet that too.
  absl::Status Run(const kernels::cuda::AttentionArgs& args, int64_t segments,
                   int64_t length) override;

 private:
  kernels::cuda::host::Stream* const stream_;
};

}  // namespace rserve::cuda

#endif  // RSERVE_SRC_BACKEND_CUDA_HOST_HOST_ATTENTION_H_
