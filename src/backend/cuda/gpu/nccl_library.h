// NCCL, opened at run time: one GPU needs none of it.

#ifndef RSERVE_SRC_BACKEND_CUDA_GPU_NCCL_LIBRARY_H_
#define RSERVE_SRC_BACKEND_CUDA_GPU_NCCL_LIBRARY_H_

#include <nccl.h>

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace rserve::cuda {

// NCCL's functions. The library stays open.
struct Nccl {
  decltype(&ncclCommInitAll) init_all = nullptr;
  decltype(&ncclAllReduce) all_reduce = nullptr;
  decltype(&ncclSend) send = nullptr;
  decltype(&ncclRecv) receive = nullptr;
  decltype(&ncclGroupStart) group_start = nullptr;
  decltype(&ncclGroupEnd) group_end = nullptr;
  decltype(&ncclCommDestroy) destroy = nullptr;
  decltype(&ncclCommAbort) abort = nullptr;
  decltype(&ncclGetErrorString) explain = nullptr;
};

// UNAVAILABLE with the system's reason.
absl::StatusOr<Nccl> OpenNccl();

// One communicator over `gpus`, an end for each in that order.
absl::StatusOr<std::vector<ncclComm_t>> Connect(const Nccl& nccl, const std::vector<int>& gpus);

absl::Status Explain(const Nccl& nccl, const char* what, ncclResult_t result);

}  // namespace rserve::cuda

#endif  // RSERVE_SRC_BACKEND_CUDA_GPU_NCCL_LIBRARY_H_
