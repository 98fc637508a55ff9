// What a kernel test runs on, and where its arrays lie: the host's emulation, or a GPU when
// compiled with RSERVE_TEST_GPU - then in managed memory, which both can read, and with
// CUDA_LAUNCH_BLOCKING=1 in the environment, so that a launch is over when the test looks at its
// results.

#ifndef RSERVE_TESTS_KERNELS_CUDA_TEST_DEVICE_H_
#define RSERVE_TESTS_KERNELS_CUDA_TEST_DEVICE_H_

#include <cstddef>
#include <cstdlib>
#include <string>
#include <vector>

#include "kernels/cuda/host/stream.h"
#include "kernels/cuda/types.h"

namespace rserve::testing {

#if defined(RSERVE_TEST_GPU)
inline constexpr bool kEmulated = false;
void* TestAllocate(size_t bytes);
void TestFree(void* memory);

// Schedules mean nothing to a GPU; a kernel runs several times instead.
class Stream {
 public:
  kernels::cuda::host::Schedule& schedule() { return schedule_; }
  kernels::cuda::StreamRef ref() const { return {}; }
  // Waits, and says what has gone wrong on the GPU so far.
  const std::string& error();

 private:
  kernels::cuda::host::Schedule schedule_;
  std::string error_;
};
#else
inline constexpr bool kEmulated = true;
using kernels::cuda::host::Stream;
inline void* TestAllocate(size_t bytes) { return std::malloc(bytes); }
inline void TestFree(void* memory) { std::free(memory); }
#endif

template <typename T>
struct TestAllocator {
  using value_type = T;
  TestAllocator() = default;
  template <typename U>
  TestAllocator(const TestAllocator<U>&) {}  // NOLINT: allocators convert
  T* allocate(size_t n) { return static_cast<T*>(TestAllocate(n * sizeof(T))); }
  void deallocate(T* p, size_t) { TestFree(p); }
  bool operator==(const TestAllocator&) const { return true; }
};

// What kernels read.
template <typename T>
using DeviceVector = std::vector<T, TestAllocator<T>>;

}  // namespace rserve::testing

#endif  // RSERVE_TESTS_KERNELS_CUDA_TEST_DEVICE_H_
