// All-reduce between HostDevices whose ranks run on threads of their own.

#ifndef RSERVE_SRC_BACKEND_CUDA_HOST_HOST_COLLECTIVE_H_
#define RSERVE_SRC_BACKEND_CUDA_HOST_HOST_COLLECTIVE_H_

#include <memory>
#include <vector>

#include "src/backend/cuda/collective.h"

namespace rserve::cuda {

// One end a rank. Sums are taken in f32 in the order of the ranks and rounded once, so that every
// rank gets the same bits and a run can be repeated. After Abort, an all-reduce leaves NaNs behind.
std::vector<std::unique_ptr<Collective>> MakeHostCollectives(int ranks);

}  // namespace rserve::cuda

#endif  // RSERVE_SRC_BACKEND_CUDA_HOST_HOST_COLLECTIVE_H_
