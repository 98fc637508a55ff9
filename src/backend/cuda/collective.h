// What the ranks of a stage do together: NCCL's part on GPUs, a meeting of threads on the host.

#ifndef RSERVE_SRC_BACKEND_CUDA_COLLECTIVE_H_
#define RSERVE_SRC_BACKEND_CUDA_COLLECTIVE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "src/backend/cuda/device.h"

namespace rserve::cuda {

// One rank's end. Every rank makes the same calls in the same order.
class Collective {
 public:
  virtual ~Collective() = default;
  // Queues: data[i] becomes the sum of all ranks' data[i], with the same bits on every rank.
  virtual absl::Status AllReduce(Bf16* data, int64_t count, StreamRef stream) = 0;
  // Ends what waits for ranks that will not come, on all ranks and for good. Any thread.
  virtual void Abort() = 0;
};

}  // namespace rserve::cuda

#endif  // RSERVE_SRC_BACKEND_CUDA_COLLECTIVE_H_
