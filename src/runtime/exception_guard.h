// The one place of the runtime that catches exceptions.
//
// The library does not throw, but allocations and the host's code (executors, trace and log
// functions) may. Each thread of the engine runs what may throw through RunGuarded, so that the
// action at hand fails and the process lives.

#ifndef RSERVE_SRC_RUNTIME_EXCEPTION_GUARD_H_
#define RSERVE_SRC_RUNTIME_EXCEPTION_GUARD_H_

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace rserve::runtime {

// Calls `fn`. OK if it returned, RESOURCE_EXHAUSTED if it threw std::bad_alloc, INTERNAL for
// anything else, with `what` (who threw) and the exception's text.
absl::Status RunGuarded(absl::string_view what, absl::FunctionRef<void()> fn) noexcept;

// A status with a message, or without one if there is no memory for it.
absl::Status StatusWithoutThrow(absl::StatusCode code, absl::string_view message) noexcept;

}  // namespace rserve::runtime

#endif  // RSERVE_SRC_RUNTIME_EXCEPTION_GUARD_H_
