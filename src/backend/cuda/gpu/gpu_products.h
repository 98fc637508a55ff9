// Matrix products through cuBLASLt: descriptors and algorithms cached by shape.

#ifndef RSERVE_SRC_BACKEND_CUDA_GPU_GPU_PRODUCTS_H_
#define RSERVE_SRC_BACKEND_CUDA_GPU_GPU_PRODUCTS_H_

#include <memory>

#include "absl/status/statusor.h"
#include "src/backend/cuda/device.h"

namespace rserve::cuda {

// Workspace: 32 MiB of `device`, which outlives the object. When `deterministic`, an algorithm is
// chosen for each weight shape and kind of product at a fixed number of rows, without split of k,
// and used for every number of rows.
absl::StatusOr<std::unique_ptr<Products>> MakeGpuProducts(Device* device, StreamRef stream,
                                                          bool deterministic);

}  // namespace rserve::cuda

#endif  // RSERVE_SRC_BACKEND_CUDA_GPU_GPU_PRODUCTS_H_
