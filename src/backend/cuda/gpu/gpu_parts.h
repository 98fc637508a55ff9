// A GPU's multiprocessors in two parts, through the driver's green contexts: kernels on a stream of
// a part run on that part's multiprocessors only. Memory and events are the whole device's.

#ifndef RSERVE_SRC_BACKEND_CUDA_GPU_GPU_PARTS_H_
#define RSERVE_SRC_BACKEND_CUDA_GPU_GPU_PARTS_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "src/backend/cuda/device.h"

namespace rserve::cuda {

// Outlives its streams. Not thread-safe.
class GpuParts {
 public:
  virtual ~GpuParts() = default;
  // A stream on the first part, or on the rest. It is destroyed as any other.
  virtual absl::StatusOr<StreamRef> CreateStream(bool rest) = 0;
};

// The first part has `percent` (1 .. 99) of the multiprocessors, as nearly as the device can be cut
// (in eights from sm_90 on). UNAVAILABLE when the driver is too old for green contexts,
// INVALID_ARGUMENT when a part would be empty.
absl::StatusOr<std::unique_ptr<GpuParts>> CutGpu(int index, int32_t percent);

}  // namespace rserve::cuda

#endif  // RSERVE_SRC_BACKEND_CUDA_GPU_GPU_PARTS_H_
