/* Events: what happens to requests, and how it is polled; a part of rserve.h. */

#ifndef RSERVE_EVENT_H_
#define RSERVE_EVENT_H_

#include <stddef.h>
#include <stdint.h>

#include "rserve/engine.h"
#include "rserve/status.h"
#include "rserve/version.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef int32_t rserve_event_type_t;
enum {
  RSERVE_EVENT_ACCEPTED = 1,       /* always the first; the last is terminal */
  RSERVE_EVENT_ITEM_ENCODED = 2,   /* u.item */
  RSERVE_EVENT_INPUT_RELEASED = 3, /* u.item; borrowed memory of the picture is the host's again;
                                      before or after ITEM_ENCODED, also for copied pictures */
  RSERVE_EVENT_FIRST_TOKEN = 4,    /* u.first_token; FINISHED follows */
  RSERVE_EVENT_FINISHED = 5,       /* terminal, u.terminal */
  RSERVE_EVENT_FAILED = 6,         /* terminal, u.terminal; status, and the text in the detail */
  RSERVE_EVENT_CANCELLED = 7       /* terminal, u.terminal */
};

#define RSERVE_EVENT_F_MORE 0x1u /* more events of this request follow; not on a terminal one */

/** Something happened to a request. 64 bytes. */
typedef struct rserve_event {
  uint64_t request_id;
  uint64_t user_data;
  rserve_event_type_t type;
  uint32_t flags;
  rserve_status_t status; /* of the request; not OK on FAILED and CANCELLED only */
  uint32_t reserved;
  int64_t t_mono_ns; /* CLOCK_MONOTONIC */
  union {
    struct {
      int32_t token;
      float logprob;   /* natural logarithm of its probability before temperature and top_p */
      int64_t ttft_ns; /* since the submit */
      int64_t reserved;
    } first_token;
    struct {
      int32_t item; /* number of the picture in the request, from 0 */
      int32_t reserved;
      int64_t tokens;
      int64_t reserved2;
    } item;
    struct {
      int64_t elapsed_ns; /* since the submit */
      int64_t reserved[2];
    } terminal;
    uint8_t bytes[24];
  } u;
} rserve_event;

/** Takes events out of the engine. Never blocks.
 *  @param events      Out: array of `capacity` places of `event_size` bytes each.
 *  @param capacity    May be 0: nothing is taken, and the wait fd stays readable.
 *  @param event_size  The caller's sizeof(rserve_event), at least 64; bytes of a longer one that
 *                     this library does not know are zeroed.
 *  @param count       Out: events written.
 *  [driver] @since 0.1 */
RSERVE_API rserve_status_t rserve_engine_poll(rserve_engine *engine, rserve_event *events,
                                              size_t capacity, size_t event_size, size_t *count,
                                              rserve_error **err);

/** A file descriptor that is readable while there may be events: a hint, spurious wake-ups are
 *  legal. Owned by the engine: wait on it with poll, select or epoll; do not read or close it.
 *  @return -1 when `engine` is NULL or being destroyed. [any-thread] @since 0.1 */
RSERVE_API int rserve_engine_wait_fd(const rserve_engine *engine);

/** When rserve_engine_poll should be called even if the fd stays quiet, on CLOCK_MONOTONIC. Engines
 *  with threads of their own watch deadlines themselves and always return INT64_MAX.
 *  [any-thread] @since 0.1 */
RSERVE_API int64_t rserve_engine_next_deadline_ns(const rserve_engine *engine);

/** Lets go of an ended request's detail. FAILED_PRECONDITION before its terminal event was polled;
 *  NOT_FOUND for a request that is unknown or acknowledged. [any-thread] @since 0.1 */
RSERVE_API rserve_status_t rserve_engine_acknowledge(rserve_engine *engine, uint64_t request_id,
                                                     rserve_error **err);

#ifdef __cplusplus
}
#endif

#endif /* RSERVE_EVENT_H_ */
