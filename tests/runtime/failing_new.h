// operator new, replaced for the whole program, that fails once on demand.

#ifndef RSERVE_TESTS_RUNTIME_FAILING_NEW_H_
#define RSERVE_TESTS_RUNTIME_FAILING_NEW_H_

#include <cstdint>

namespace rserve::testing {

// The calling thread's n-th allocation from now on throws std::bad_alloc; n at least 1.
void FailAllocation(int64_t n);
// Whether the calling thread has an allocation still to fail.
bool AllocationToFail();
// Takes that back.
void FailNoAllocation();
// Blocks that the whole program has allocated and not freed.
int64_t LiveAllocations();
// Blocks that the calling thread has allocated, less those that it has freed, whoever allocated
// them: does not move while other threads clear up.
int64_t OwnAllocations();

}  // namespace rserve::testing

#endif  // RSERVE_TESTS_RUNTIME_FAILING_NEW_H_
