// In a file of its own, so that no compiler inlines one half of a new and delete pair.

#include "tests/runtime/failing_new.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

thread_local int64_t allocations_left = 0;  // until one fails; 0: none will
thread_local int64_t own_allocations = 0;
std::atomic<int64_t> live_allocations{0};

void Free(void* memory) {
  if (memory != nullptr) {
    --live_allocations;
    --own_allocations;
  }
  std::free(memory);
}

}  // namespace

void* operator new(std::size_t size) {
  if (allocations_left > 0 && --allocations_left == 0) throw std::bad_alloc();
  void* const memory = std::malloc(size == 0 ? 1 : size);
  if (memory == nullptr) throw std::bad_alloc();
  ++live_allocations;
  ++own_allocations;
  return memory;
}
void operator delete(void* memory) noexcept { Free(memory); }
void operator delete(void* memory, std::size_t) noexcept { Free(memory); }

namespace rserve::testing {

void FailAllocation(int64_t n) { allocations_left = n; }
bool AllocationToFail() { return allocations_left > 0; }
void FailNoAllocation() { allocations_left = 0; }
int64_t LiveAllocations() { return live_allocations; }
int64_t OwnAllocations() { return own_allocations; }

}  // namespace rserve::testing
