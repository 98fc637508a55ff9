/* What a request would need, without running it; a part of rserve.h. */

#ifndef RSERVE_PLAN_H_
#define RSERVE_PLAN_H_

#include <stddef.h>
#include <stdint.h>

#include "rserve/detail.h"
#include "rserve/engine.h"
#include "rserve/request.h"
#include "rserve/status.h"
#include "rserve/version.h"

#ifdef __cplusplus
extern "C" {
#endif

/** What a request would need. Immutable; outlives the engine. */
typedef struct rserve_plan rserve_plan;

typedef struct rserve_plan_info {
  uint32_t struct_size;
  rserve_status_t fits; /* not OK: this engine would refuse it; rserve_plan_message says why */
  int64_t prompt_tokens;
  int64_t mrope_delta; /* next text position minus prompt_tokens */
  int64_t kv_blocks;
  int64_t embedding_bytes; /* of all pictures together, so the next two */
  int64_t pixel_bytes;
  int64_t input_bytes;
  int32_t num_items;
  uint32_t reserved;
} rserve_plan_info;

#define RSERVE_PLAN_INFO_INIT \
  { sizeof(rserve_plan_info), 0, 0, 0, 0, 0, 0, 0, 0, 0 }

/** Plans a request without running it. Errors of malformed requests as submit; one that the engine
 *  cannot hold is planned and says so in `fits`. RESOURCE_EXHAUSTED: it is beyond max_image_pixels,
 *  input_bytes or max_prompt_tokens, which bound the work of planning too.
 *  @param request  Borrowed for the call.
 *  @param plan     Out: owned by the caller, who frees it with rserve_plan_destroy.
 *  [any-thread] @since 0.1 */
RSERVE_API rserve_status_t rserve_engine_plan(const rserve_engine *engine,
                                              const rserve_request *request, rserve_plan **plan,
                                              rserve_error **err);

/** @param info Out, written up to its struct_size. [any-thread] @since 0.1 */
RSERVE_API rserve_status_t rserve_plan_get_info(const rserve_plan *plan, rserve_plan_info *info,
                                                rserve_error **err);

/** As rserve_detail_get_item. [any-thread] @since 0.1 */
RSERVE_API rserve_status_t rserve_plan_get_item(const rserve_plan *plan, size_t index,
                                                rserve_item *item, rserve_error **err);

/** Why it does not fit, or "". Returned memory lives until rserve_plan_destroy, here and below.
 *  [any-thread] @since 0.1 */
RSERVE_API const char *rserve_plan_message(const rserve_plan *plan, size_t *count);

/** The prompt's token ids, placeholders expanded. [any-thread] @since 0.1 */
RSERVE_API const int32_t *rserve_plan_tokens(const rserve_plan *plan, size_t *count);

/** M-RoPE positions, [3][prompt_tokens]: temporal, height, width. [any-thread] @since 0.1 */
RSERVE_API const int32_t *rserve_plan_positions(const rserve_plan *plan, size_t *count);

/** @param plan Freed; NULL is fine. [init] @since 0.1 */
RSERVE_API void rserve_plan_destroy(rserve_plan *plan);

#ifdef __cplusplus
}
#endif

#endif /* RSERVE_PLAN_H_ */
