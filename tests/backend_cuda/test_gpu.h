// The Device of the golden tests: the host, or GPU 0 when compiled with RSERVE_TEST_GPU.

#ifndef RSERVE_TESTS_BACKEND_CUDA_TEST_GPU_H_
#define RSERVE_TESTS_BACKEND_CUDA_TEST_GPU_H_

#include <memory>
#include <utility>

#include "tests/support/catch.h"
#if defined(RSERVE_TEST_GPU)
#include "src/backend/cuda/gpu/gpu_device.h"
#else
#include "src/backend/cuda/host/host_device.h"
#endif

namespace rserve::testing {

// `seed`: of the host's random orders.
inline std::unique_ptr<cuda::Device> MakeTestDevice(uint64_t seed) {
#if defined(RSERVE_TEST_GPU)
  auto device = cuda::OpenGpu(0);
  INFO("seed " << seed << " (unused): " << device.status());
  REQUIRE(device.ok());
  return *std::move(device);
#else
  return std::make_unique<cuda::HostDevice>(cuda::HostDeviceOptions{seed});
#endif
}

}  // namespace rserve::testing

#endif  // RSERVE_TESTS_BACKEND_CUDA_TEST_GPU_H_
