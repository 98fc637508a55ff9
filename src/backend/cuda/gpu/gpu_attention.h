// Fused attention through cuDNN 9, opened at run time.

#ifndef RSERVE_SRC_BACKEND_CUDA_GPU_GPU_ATTENTION_H_
#define RSERVE_SRC_BACKEND_CUDA_GPU_GPU_ATTENTION_H_

#include <memory>

#include "absl/status/statusor.h"
#include "src/backend/cuda/device.h"
#include "src/backend/cuda/fused_attention.h"

namespace rserve::cuda {

// One operation graph of scaled dot-product attention for each size, bf16 with f32 inside, in the
// layout that our tensors have: no copies. At most 64 plans are kept; further sizes are
// UNIMPLEMENTED, as are those whose plan wants more than 16 MiB of workspace. UNAVAILABLE with the
// reason where cuDNN is not there, is older than 9.13, or was not there when this was built.
absl::StatusOr<std::unique_ptr<FusedAttention>> MakeGpuAttention(Device* device, StreamRef stream);

}  // namespace rserve::cuda

#endif  // RSERVE_SRC_BACKEND_CUDA_GPU_GPU_ATTENTION_H_
