// The boundary: what every entry point passes on its way in and out.

#ifndef RSERVE_CAPI_GUARD_H_
#define RSERVE_CAPI_GUARD_H_

#include <exception>
#include <new>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "rserve/rserve.h"

struct rserve_error {
  rserve_status_t code;
  std::string message;
};

namespace rserve::capi {

// Fills *err (if wanted) for a status that is not OK, and returns its number. A message that finds
// no memory is replaced by a constant one.
rserve_status_t Report(const absl::Status& status, rserve_error** err) noexcept;
rserve_status_t ReportOutOfMemory(rserve_error** err) noexcept;
rserve_status_t ReportException(const char* what, rserve_error** err) noexcept;

// Runs the body of an entry point. No exception leaves it.
template <typename Body>
rserve_status_t Guard(rserve_error** err, Body&& body) noexcept {
  try {
    return Report(std::forward<Body>(body)(), err);
  } catch (const std::bad_alloc&) {
    return ReportOutOfMemory(err);
  } catch (const std::exception& e) {
    return ReportException(e.what(), err);
  } catch (...) {
    return ReportException("unknown exception", err);
  }
}

// INVALID_ARGUMENT "<name> is NULL" for a null pointer.
absl::Status CheckNotNull(const void* pointer, const char* name);

}  // namespace rserve::capi

#endif  // RSERVE_CAPI_GUARD_H_
