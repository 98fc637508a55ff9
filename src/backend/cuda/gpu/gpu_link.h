// Hidden states from GPU to GPU.

#ifndef RSERVE_SRC_BACKEND_CUDA_GPU_GPU_LINK_H_
#define RSERVE_SRC_BACKEND_CUDA_GPU_GPU_LINK_H_

#include <memory>

#include "absl/status/statusor.h"
#include "src/backend/cuda/hand_over.h"

namespace rserve::cuda {

// kNccl: a communicator of the two GPUs, a stream on the receiver that takes what comes, and an
// event a place. A receive is queued together with its send, so that a sender's stream never waits
// for the receiver's stage; until its data come it holds a few multiprocessors of the receiver.
// UNAVAILABLE where NCCL is not there. On one GPU kNccl is a copy.
absl::StatusOr<std::shared_ptr<HandOver>> MakeGpuHandOver(LinkKind kind, Device* from, Device* to,
                                                          const HandOverLimits& limits);

}  // namespace rserve::cuda

#endif  // RSERVE_SRC_BACKEND_CUDA_GPU_GPU_LINK_H_
