// librserve_cuda_emulated.so: the CUDA backend's own code over the host's emulation, as a library
// that an engine opens in the place of librserve_cuda.so. For tests.

#ifndef RSERVE_TESTS_BACKEND_CUDA_EMULATED_LIBRARY_H_
#define RSERVE_TESTS_BACKEND_CUDA_EMULATED_LIBRARY_H_

#include <cstdint>

namespace rserve::testing {

// Beside rserve_cuda_library it exports functions for the tests that open it. Devices have the
// numbers 0 to 15.
struct EmulatedFunctions {
  // The device of that number, or every one (-1), is lost after so many more operations.
  void (*lose_after)(int number, int64_t operations) = nullptr;
  // Throws std::bad_alloc, as any function of the backend may.
  void (*run_out_of_memory)() = nullptr;
};
using EmulatedEntry = EmulatedFunctions (*)();
inline constexpr char kEmulatedEntry[] = "rserve_emulated_functions";

}  // namespace rserve::testing

// For a program that has the library's source among its own.
extern "C" rserve::testing::EmulatedFunctions rserve_emulated_functions();

#endif  // RSERVE_TESTS_BACKEND_CUDA_EMULATED_LIBRARY_H_
