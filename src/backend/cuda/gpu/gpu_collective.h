// All-reduce between GPUs of one process, through NCCL.

#ifndef RSERVE_SRC_BACKEND_CUDA_GPU_GPU_COLLECTIVE_H_
#define RSERVE_SRC_BACKEND_CUDA_GPU_GPU_COLLECTIVE_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "src/backend/cuda/collective.h"

namespace rserve::cuda {

// One communicator over `gpus`, an end for each in that order. NCCL is opened when it is first
// asked for, so that one GPU needs none of it: UNAVAILABLE with the reason when it is not there.
// NCCL adds in an order of its own, the same on every rank; which one may depend on its version.
absl::StatusOr<std::vector<std::unique_ptr<Collective>>> MakeGpuCollectives(
    const std::vector<int>& gpus);

}  // namespace rserve::cuda

#endif  // RSERVE_SRC_BACKEND_CUDA_GPU_GPU_COLLECTIVE_H_
