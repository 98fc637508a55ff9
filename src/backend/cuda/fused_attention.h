// FusedAttention: attention by a library of the device's (cuDNN on GPUs), beside the kernel of our
// own. Which of the two is faster, a GPU has to say.

#ifndef RSERVE_SRC_BACKEND_CUDA_FUSED_ATTENTION_H_
#define RSERVE_SRC_BACKEND_CUDA_FUSED_ATTENTION_H_

#include <cstdint>

#include "absl/status/status.h"
#include "kernels/attention/attention_cuda.h"

namespace rserve::cuda {

// Of one stream; used by one thread at a time.
class FusedAttention {
 public:
  virtual ~FusedAttention() = default;
  // Queues what kernels::cuda::AttendSegments queues for segments of `length` rows each, one after
  // another from row 0 on: `args` without its plan, with kv_heads heads of queries, keys and values
  // (group 1). UNIMPLEMENTED, and nothing queued, for sizes that the library does not cover. Sizes
  // that are new take the time to build a plan. A row's bits may depend on the number of segments.
  virtual absl::Status Run(const kernels::cuda::AttentionArgs& args, int64_t segments,
                           int64_t length) = 0;
};

}  // namespace rserve::cuda

#endif  // RSERVE_SRC_BACKEND_CUDA_FUSED_ATTENTION_H_
