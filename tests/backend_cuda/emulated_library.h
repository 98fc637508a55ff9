// librserve_cuda_emulated.so: the CUDA backend's own code over the host's emulation, as a library
// that an engine opens in the place of librserve_cuda.so. For tests.

#ifndef RSERVE_TESTS_BACKEND_CUDA_EMULATED_LIBRARY_H_
#define RSERVE_TESTS_BACKEND_CUDA_EMULATED_LIBRARY_H_

#include <cstdint>

namespace rserve::testing {

// Beside rserve_cuda_library it exports a function for the tests that open it: the device of that
// number, or every one (-1), is lost after so many more operations. Devices have the numbers 0
// to 15.
using LoseAfter = void (*)(int number, int64_t operations);
inline constexpr char kLoseAfter[] = "rserve_emulated_lose_after";

}  // namespace rserve::testing

#endif  // RSERVE_TESTS_BACKEND_CUDA_EMULATED_LIBRARY_H_
