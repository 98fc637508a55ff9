/* What became of a call, and why it failed; a part of rserve.h. */

#ifndef RSERVE_STATUS_H_
#define RSERVE_STATUS_H_

#include <stddef.h>
#include <stdint.h>

#include "rserve/version.h"

#ifdef __cplusplus
extern "C" {
#endif

/** What became of a call or a request. The numbers are those of gRPC and Abseil. */
typedef int32_t rserve_status_t;
enum {
  RSERVE_STATUS_OK = 0,
  RSERVE_STATUS_CANCELLED = 1,
  RSERVE_STATUS_UNKNOWN = 2,
  RSERVE_STATUS_INVALID_ARGUMENT = 3,
  RSERVE_STATUS_DEADLINE_EXCEEDED = 4,
  RSERVE_STATUS_NOT_FOUND = 5,
  RSERVE_STATUS_ALREADY_EXISTS = 6,
  RSERVE_STATUS_PERMISSION_DENIED = 7,
  RSERVE_STATUS_RESOURCE_EXHAUSTED = 8,
  RSERVE_STATUS_FAILED_PRECONDITION = 9,
  RSERVE_STATUS_ABORTED = 10,
  RSERVE_STATUS_OUT_OF_RANGE = 11,
  RSERVE_STATUS_UNIMPLEMENTED = 12,
  RSERVE_STATUS_INTERNAL = 13,
  RSERVE_STATUS_UNAVAILABLE = 14,
  RSERVE_STATUS_DATA_LOSS = 15,
  RSERVE_STATUS_UNAUTHENTICATED = 16
};

/** "INVALID_ARGUMENT" and so on; "UNKNOWN" for a number that is none. Static storage.
 *  [any-thread] @since 0.1 */
RSERVE_API const char *rserve_status_name(rserve_status_t status);

/** Why a call failed. Immutable, so threads may share it. */
typedef struct rserve_error rserve_error;

/** @param err Borrowed for the call; NULL gives RSERVE_STATUS_OK. [any-thread] @since 0.1 */
RSERVE_API rserve_status_t rserve_error_code(const rserve_error *err);

/** The message: what was wrong, with its value and limit.
 *  @param err     Borrowed for the call; NULL gives "".
 *  @param length  Out, nullable: bytes without the NUL.
 *  @return valid until rserve_error_destroy. [any-thread] @since 0.1 */
RSERVE_API const char *rserve_error_message(const rserve_error *err, size_t *length);

/** @param err Freed; NULL is fine. [init] @since 0.1 */
RSERVE_API void rserve_error_destroy(rserve_error *err);

#ifdef __cplusplus
}
#endif

#endif /* RSERVE_STATUS_H_ */
