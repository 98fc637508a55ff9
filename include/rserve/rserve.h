/* rserve: first tokens for requests of text and pictures, encoding overlapped with prefill.
 *
 * LIFECYCLE
 *   rserve_engine_create (reads a checkpoint folder, starts threads)
 *     -> rserve_engine_submit, _cancel       any number, from any thread
 *     -> rserve_engine_poll                  from one thread, when the wait fd is readable
 *     -> rserve_engine_drain or _abort       optional: refuse what is new, finish or end the rest
 *     -> rserve_engine_destroy
 *   A submit that returns RSERVE_STATUS_OK is followed by exactly one terminal event (FINISHED,
 *   FAILED or CANCELLED), also after a cancel, a deadline, an error or an abort. One that fails is
 *   followed by nothing and keeps nothing. After the terminal event was polled, the request's
 *   detail (times, logits, error text) can be read until rserve_engine_acknowledge. Acknowledge
 *   every request, or submit it with RSERVE_REQUEST_F_NO_DETAIL: details that nobody acknowledges
 *   are kept, and at max_unacknowledged of them submit is refused.
 *   Hosts with a model of their own find the same engine, and the scheduler alone, in host.h.
 *
 * A POLL LOOP (examples/c/first_token.c is the whole program)
 *   struct pollfd p = {rserve_engine_wait_fd(engine), POLLIN, 0};
 *   for (int open = 1; open > 0;) {
 *     rserve_event events[16];
 *     size_t count = 0;
 *     poll(&p, 1, -1);
 *     rserve_engine_poll(engine, events, 16, sizeof events[0], &count, NULL);
 *     for (size_t i = 0; i < count; ++i) {
 *       switch (events[i].type) {
 *         case RSERVE_EVENT_FIRST_TOKEN:
 *           printf("token %d\n", (int)events[i].u.first_token.token);
 *           break;
 *         case RSERVE_EVENT_INPUT_RELEASED:  // the picture's memory is yours again
 *         default: break;                    // skip types that you do not know
 *       }
 *       if ((events[i].flags & RSERVE_EVENT_F_MORE) == 0) {
 *         --open;
 *         rserve_engine_acknowledge(engine, events[i].request_id, NULL);
 *       }
 *     }
 *   }
 *
 * THREADS
 *   [any-thread]  may be called from any thread at any time between create and destroy.
 *   [driver]      calls must not overlap each other on one engine; any thread may make them.
 *   [init]        makes or ends an object; no other call on it may overlap.
 *   Nothing here reads environment variables, installs signal handlers or keeps process-wide state.
 *   An engine cannot be used in a forked child (FAILED_PRECONDITION).
 *
 * OWNERSHIP
 *   Handles are freed by their _destroy function only, which takes NULL. Each pointer parameter
 *   says whether its memory is copied or borrowed, and until when. Strings are UTF-8 with a length;
 *   those that rserve returns are also ended by a NUL.
 *
 * STRUCTS
 *   Begin with the caller's sizeof in struct_size (the _INIT macros put it there) and grow at their
 *   ends only. Zero means "default" in every field; reserved fields must be 0. A struct that is
 *   longer than the library knows is taken if the rest is zero, otherwise it gets UNIMPLEMENTED. An
 *   output struct is written up to its struct_size.
 *
 * ERRORS
 *   Functions that can fail return rserve_status_t and take a last `rserve_error **err`: NULL, or
 *   where to put an error that the caller frees with rserve_error_destroy. It is set on failure
 *   only; other outputs are then untouched.
 *
 * HEADERS
 *   This one is all that a program includes. Its parts, in the order to read them:
 *     version.h, status.h   what the library is, what its calls return
 *     engine.h              the configuration, create and destroy
 *     request.h, event.h    what goes in, what comes out
 *     detail.h, plan.h      one request looked at afterwards, and beforehand
 *     model.h, stats.h      what an engine has loaded and done
 *
 * VERSIONS
 *   A program compiled with version a.b of this header works with a library of the same ABI major
 *   and at least its ABI minor:
 *     (rserve_abi_version() >> 16) == RSERVE_ABI_MAJOR
 *       && (rserve_abi_version() & 0xffff) >= RSERVE_ABI_MINOR
 */

#ifndef RSERVE_RSERVE_H_
#define RSERVE_RSERVE_H_

#include "rserve/detail.h"
#include "rserve/engine.h"
#include "rserve/event.h"
#include "rserve/model.h"
#include "rserve/plan.h"
#include "rserve/request.h"
#include "rserve/stats.h"
#include "rserve/status.h"
#include "rserve/version.h"

#endif /* RSERVE_RSERVE_H_ */
