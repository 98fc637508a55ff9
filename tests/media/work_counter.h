// What a call costs, in counts that are the same on every machine: bytes of memory held at once,
// basic blocks run in our own parsers, bytes that zlib unpacked. For programs that link
// work_counter.cc, which takes the place of malloc and of zlib's inflate, and parsers compiled with
// -fsanitize-coverage=trace-pc.

#ifndef RSERVE_TESTS_MEDIA_WORK_COUNTER_H_
#define RSERVE_TESTS_MEDIA_WORK_COUNTER_H_

#include <cstdint>

#include "absl/functional/function_ref.h"

namespace rserve::testing {

struct Work {
  int64_t peak_bytes = 0;  // of memory, above what was held before
  int64_t steps = 0;       // basic blocks
  int64_t unpacked = 0;    // bytes out of inflate
};

// Single-threaded, not nested.
Work WorkOf(absl::FunctionRef<void()> call);

}  // namespace rserve::testing

#endif  // RSERVE_TESTS_MEDIA_WORK_COUNTER_H_
