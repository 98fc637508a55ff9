// Whether products give a row the same bits however many rows it comes with: what the exactness
// contract needs of cuBLASLt, which promises it nowhere. Checked when a deterministic role is made.

#ifndef RSERVE_SRC_BACKEND_CUDA_SELF_CHECK_H_
#define RSERVE_SRC_BACKEND_CUDA_SELF_CHECK_H_

#include <vector>

#include "absl/status/status.h"
#include "src/backend/cuda/device.h"
#include "src/backend/cuda/weights.h"

namespace rserve::cuda {

// A product as a role runs it: another kind may get another algorithm.
struct CheckedProduct {
  const Matrix* matrix = nullptr;
  bool residual = false;
  bool f32 = false;
};

// Runs each product over 200 rows and over some of them alone. FAILED_PRECONDITION names the first
// product whose rows differ. Allocates and frees; construction only.
absl::Status CheckRowExact(Timeline* timeline, const std::vector<CheckedProduct>& products);

}  // namespace rserve::cuda

#endif  // RSERVE_SRC_BACKEND_CUDA_SELF_CHECK_H_
