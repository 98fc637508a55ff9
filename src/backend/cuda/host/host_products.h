// Matrix products of a HostDevice's stream: what cuBLASLt computes, summed in the order of k in
// f32.

#ifndef RSERVE_SRC_BACKEND_CUDA_HOST_HOST_PRODUCTS_H_
#define RSERVE_SRC_BACKEND_CUDA_HOST_HOST_PRODUCTS_H_

#include "kernels/cuda/host/stream.h"
#include "src/backend/cuda/device.h"

namespace rserve::cuda {

class HostProducts final : public Products {
 public:
  explicit HostProducts(kernels::cuda::host::Stream* stream) : stream_(stream) {}
  // INVALID_ARGUMENT for what cuBLASLt would refuse or do slowly: sizes that are no multiples of 8,
  // rows that are not 16-byte aligned.
  absl::Status Run(const ProductArgs& args) override;

 private:
  kernels::cuda::host::Stream* stream_;
};

}  // namespace rserve::cuda

#endif  // RSERVE_SRC_BACKEND_CUDA_HOST_HOST_PRODUCTS_H_
