#include <cuda_runtime_api.h>

#include "tests/kernels_cuda/test_device.h"

namespace rserve::testing {

void* TestAllocate(size_t bytes) {
  void* memory = nullptr;
  return cudaMallocManaged(&memory, bytes == 0 ? 1 : bytes) == cudaSuccess ? memory : nullptr;
}

void TestFree(void* memory) { cudaFree(memory); }

const std::string& Stream::error() {
  const cudaError_t status = cudaDeviceSynchronize();
  error_ = status == cudaSuccess ? "" : cudaGetErrorString(status);
  return error_;
}

}  // namespace rserve::testing
