// Hand-overs between HostDevices.

#ifndef RSERVE_SRC_BACKEND_CUDA_HOST_HOST_LINK_H_
#define RSERVE_SRC_BACKEND_CUDA_HOST_HOST_LINK_H_

#include <memory>

#include "absl/status/statusor.h"
#include "src/backend/cuda/hand_over.h"

namespace rserve::cuda {

// kNccl stands for NCCL: what is sent is there when the sender's stream is through, and a receiver
// that runs before is a fault, which loses its device.
absl::StatusOr<std::shared_ptr<HandOver>> MakeHostHandOver(LinkKind kind, Device* from, Device* to,
                                                           const HandOverLimits& limits);

}  // namespace rserve::cuda

#endif  // RSERVE_SRC_BACKEND_CUDA_HOST_HOST_LINK_H_
