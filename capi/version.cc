#include "absl/status/status.h"
#include "rserve/rserve.h"

// The build passes the project's version in; the header must say the same.
static_assert(RSERVE_VERSION_MAJOR == RSERVE_PROJECT_VERSION_MAJOR);
static_assert(RSERVE_VERSION_MINOR == RSERVE_PROJECT_VERSION_MINOR);
static_assert(RSERVE_VERSION_PATCH == RSERVE_PROJECT_VERSION_PATCH);

#define RSERVE_CHECK_STATUS(name, code) \
  static_assert(RSERVE_STATUS_##name == static_cast<int>(absl::StatusCode::code))
RSERVE_CHECK_STATUS(OK, kOk);
RSERVE_CHECK_STATUS(CANCELLED, kCancelled);
RSERVE_CHECK_STATUS(UNKNOWN, kUnknown);
RSERVE_CHECK_STATUS(INVALID_ARGUMENT, kInvalidArgument);
RSERVE_CHECK_STATUS(DEADLINE_EXCEEDED, kDeadlineExceeded);
RSERVE_CHECK_STATUS(NOT_FOUND, kNotFound);
RSERVE_CHECK_STATUS(ALREADY_EXISTS, kAlreadyExists);
RSERVE_CHECK_STATUS(PERMISSION_DENIED, kPermissionDenied);
RSERVE_CHECK_STATUS(RESOURCE_EXHAUSTED, kResourceExhausted);
RSERVE_CHECK_STATUS(FAILED_PRECONDITION, kFailedPrecondition);
RSERVE_CHECK_STATUS(ABORTED, kAborted);
RSERVE_CHECK_STATUS(OUT_OF_RANGE, kOutOfRange);
RSERVE_CHECK_STATUS(UNIMPLEMENTED, kUnimplemented);
RSERVE_CHECK_STATUS(INTERNAL, kInternal);
RSERVE_CHECK_STATUS(UNAVAILABLE, kUnavailable);
RSERVE_CHECK_STATUS(DATA_LOSS, kDataLoss);
RSERVE_CHECK_STATUS(UNAUTHENTICATED, kUnauthenticated);
#undef RSERVE_CHECK_STATUS

#define RSERVE_STRINGIZE_(x) #x
#define RSERVE_STRINGIZE(x) RSERVE_STRINGIZE_(x)

extern "C" {

const char* rserve_version(void) {
  return RSERVE_STRINGIZE(RSERVE_VERSION_MAJOR) "." RSERVE_STRINGIZE(
      RSERVE_VERSION_MINOR) "." RSERVE_STRINGIZE(RSERVE_VERSION_PATCH);
}

uint32_t rserve_abi_version(void) {
  return (uint32_t{RSERVE_ABI_MAJOR} << 16) | uint32_t{RSERVE_ABI_MINOR};
}

const char* rserve_status_name(rserve_status_t status) {
  static constexpr const char* kNames[] = {"OK",
                                           "CANCELLED",
                                           "UNKNOWN",
                                           "INVALID_ARGUMENT",
                                           "DEADLINE_EXCEEDED",
                                           "NOT_FOUND",
                                           "ALREADY_EXISTS",
                                           "PERMISSION_DENIED",
                                           "RESOURCE_EXHAUSTED",
                                           "FAILED_PRECONDITION",
                                           "ABORTED",
                                           "OUT_OF_RANGE",
                                           "UNIMPLEMENTED",
                                           "INTERNAL",
                                           "UNAVAILABLE",
                                           "DATA_LOSS",
                                           "UNAUTHENTICATED"};
  if (status < RSERVE_STATUS_OK || status > RSERVE_STATUS_UNAUTHENTICATED) return "UNKNOWN";
  return kNames[status];
}

}  // extern "C"
