// In the place of gpu_attention.cc where cuDNN's headers are not there.

#include "src/backend/cuda/gpu/gpu_attention.h"

namespace rserve::cuda {

absl::StatusOr<std::unique_ptr<FusedAttention>> MakeGpuAttention(Device*, StreamRef) {
  return absl::UnavailableError("cuDNN was not there when the CUDA backend was built");
}

}  // namespace rserve::cuda
