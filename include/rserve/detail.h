/* The detail of an ended request: times, items, logits; a part of rserve.h. */

#ifndef RSERVE_DETAIL_H_
#define RSERVE_DETAIL_H_

#include <stddef.h>
#include <stdint.h>

#include "rserve/engine.h"
#include "rserve/event.h"
#include "rserve/status.h"
#include "rserve/version.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A picture of a planned request. Pictures are numbered in the order of their parts. */
typedef struct rserve_item {
  uint32_t struct_size;
  uint32_t reserved;
  int64_t token_begin; /* its rows are the prompt's tokens [token_begin, token_begin + tokens) */
  int64_t tokens;
  int32_t resized_width; /* pixels */
  int32_t resized_height;
  int32_t grid_t; /* patches */
  int32_t grid_h;
  int32_t grid_w;
  uint32_t reserved2;
} rserve_item;

#define RSERVE_ITEM_INIT \
  { sizeof(rserve_item), 0, 0, 0, 0, 0, 0, 0, 0, 0 }

/** Times are on CLOCK_MONOTONIC, 0: not reached. */
typedef struct rserve_detail_info {
  uint32_t struct_size;
  rserve_event_type_t last_event; /* as polled */
  uint64_t request_id;
  uint64_t user_data;
  rserve_status_t status; /* of the terminal event */
  int32_t token;          /* first token; -1: none yet */
  float logprob;
  int32_t num_items;
  int64_t prompt_tokens;
  int64_t kv_blocks;
  int64_t submitted_ns;
  int64_t first_encode_ns;  /* first batch with a picture of it issued */
  int64_t last_encode_ns;   /* last picture encoded */
  int64_t first_prefill_ns; /* first chunk issued to the first stage */
  int64_t first_token_ns;
  int64_t ended_ns;         /* terminal event */
  int64_t first_prepare_ns; /* first picture given to a media thread */
  int64_t last_prepare_ns;  /* last picture prepared */
  int64_t reused_tokens;    /* of the prompt, whose KV was there (RSERVE_ENGINE_F_KV_REUSE) */
} rserve_detail_info;

#define RSERVE_DETAIL_INFO_INIT \
  { sizeof(rserve_detail_info), 0, 0, 0, 0, 0, 0.0f, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }

/** What is known of a request at one moment. Immutable; outlives acknowledge and the engine. */
typedef struct rserve_detail rserve_detail;

/** Takes a snapshot of a request, from its submit until it is acknowledged.
 *  @param detail Out: owned by the caller, who frees it with rserve_detail_destroy.
 *  NOT_FOUND as acknowledge. [any-thread] @since 0.1 */
RSERVE_API rserve_status_t rserve_request_detail(const rserve_engine *engine, uint64_t request_id,
                                                 rserve_detail **detail, rserve_error **err);

/** @param info Out, written up to its struct_size. [any-thread] @since 0.1 */
RSERVE_API rserve_status_t rserve_detail_get_info(const rserve_detail *detail,
                                                  rserve_detail_info *info, rserve_error **err);

/** @param item Out, written up to its struct_size. OUT_OF_RANGE for an index that is none.
 *  [any-thread] @since 0.1 */
RSERVE_API rserve_status_t rserve_detail_get_item(const rserve_detail *detail, size_t index,
                                                  rserve_item *item, rserve_error **err);

/** Why the request failed; "" if it did not. The next functions too return memory of the detail,
 *  valid until rserve_detail_destroy; `count` is out and nullable. [any-thread] @since 0.1 */
RSERVE_API const char *rserve_detail_message(const rserve_detail *detail, size_t *count);

/** The prompt's token ids, placeholders expanded. [any-thread] @since 0.1 */
RSERVE_API const int32_t *rserve_detail_tokens(const rserve_detail *detail, size_t *count);

/** The logits of the prompt's last token, or NULL and 0 when they are not kept or not there.
 *  [any-thread] @since 0.1 */
RSERVE_API const float *rserve_detail_logits(const rserve_detail *detail, size_t *count);

/** The pictures' embeddings in prompt order, rows of hidden_size; NULL and 0 as logits.
 *  [any-thread] @since 0.1 */
RSERVE_API const float *rserve_detail_embeddings(const rserve_detail *detail, size_t *count);

/** @param detail Freed; NULL is fine. [init] @since 0.1 */
RSERVE_API void rserve_detail_destroy(rserve_detail *detail);

#ifdef __cplusplus
}
#endif

#endif /* RSERVE_DETAIL_H_ */
