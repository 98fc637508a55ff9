// Opening the CUDA backend where it is not, or where it has no GPU.

#include "src/backend/cuda/loader/cuda_library.h"
#include "tests/support/catch.h"

namespace rserve::testing {
namespace {

TEST_CASE("CUDA: a library that is not there is UNAVAILABLE, with the system's reason") {
  const auto library = cuda::OpenCudaLibrary("/nowhere/librserve_cuda.so");
  CHECK(library.status().code() == absl::StatusCode::kUnavailable);
  CHECK(std::string(library.status().message()).find("/nowhere/librserve_cuda.so") !=
        std::string::npos);
}

TEST_CASE("CUDA: another library is told apart") {
  const auto library = cuda::OpenCudaLibrary("libm.so.6");
  CHECK(library.status().code() == absl::StatusCode::kUnavailable);
  CHECK(std::string(library.status().message()).find("is no CUDA backend") != std::string::npos);
}

#if defined(RSERVE_CUDA_LIBRARY)
// Compiled in where the library is built. With a GPU the device opens; without one the reason is
// the driver's.
TEST_CASE("CUDA: the library opens, and says why there is no GPU") {
  const auto library = cuda::OpenCudaLibrary(RSERVE_CUDA_LIBRARY);
  INFO(library.status());
  REQUIRE(library.ok());
  const auto device = (*library)->open_gpu(0);
  INFO(device.status());
  CHECK((device.ok() || device.status().code() == absl::StatusCode::kUnavailable));
  // NCCL is there or not; there are no 99 GPUs.
  CHECK((*library)->make_collectives({98, 99}).status().code() == absl::StatusCode::kUnavailable);
  CHECK((*library)->open_gpu(-1).status().code() == absl::StatusCode::kUnavailable);
}
#endif

}  // namespace
}  // namespace rserve::testing
