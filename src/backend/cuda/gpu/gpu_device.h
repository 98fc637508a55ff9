// A Device on a GPU: the CUDA runtime and cuBLASLt.

#ifndef RSERVE_SRC_BACKEND_CUDA_GPU_GPU_DEVICE_H_
#define RSERVE_SRC_BACKEND_CUDA_GPU_GPU_DEVICE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "src/backend/cuda/device.h"

namespace rserve::cuda {

// The GPU with that number. UNAVAILABLE with the runtime's reason when there is no driver, no such
// GPU, or one older than sm_80.
absl::StatusOr<std::unique_ptr<Device>> OpenGpu(int index);

}  // namespace rserve::cuda

#endif  // RSERVE_SRC_BACKEND_CUDA_GPU_GPU_DEVICE_H_
