/* rserve for hosts that bring their own model: the scheduling without the model.
 *
 * Two ways, over the same scheduler and the same words:
 *
 *   rserve_orchestrator   The scheduler as a state machine, for an engine that has a loop, workers
 *                         and a clock of its own. Push what happened, step, pull what to do. No
 *                         threads, no clock, no I/O: the same inputs give the same actions.
 *   rserve_executor       Callbacks that encode and forward, for a program that wants the engine's
 *                         threads, queues and events around its model
 *                         (rserve_engine_create_with_executor; submit, poll and the rest as in
 *                         rserve.h).
 *
 * THE WORK
 *   A request is a prompt of tokens in which spans take rows of items (pictures, clips). An item is
 *   one or more units, the smallest parts that are encoded alone; a picture is one unit. What a
 *   request needs is a plan: sizes only, no data. Data stays with the host, keyed by request id and
 *   unit index.
 *
 *     arrival -> [prepare] -> encode (batches of at least C tokens)
 *             -> stage 0 -> ... -> last stage (micro-batches of at most B tokens)
 *
 * THE LOOP OF AN ORCHESTRATOR (examples/host_engine/own_loop.c is the whole program)
 *   rserve_orchestrator_submit(o, &request, &err);       // on arrival
 *   rserve_orchestrator_finish(o, kind, token, status, NULL, 0, &err);  // when work ended
 *   rserve_orchestrator_step(o, now_ns, &err);           // after any of these, and at next_wake_ns
 *   rserve_action action = RSERVE_ACTION_INIT;
 *   while (rserve_orchestrator_next_action(o, &action, NULL) == RSERVE_STATUS_OK && action.kind) {
 *     switch (action.kind) {
 *       case RSERVE_ACTION_ENCODE:  start the encoder on action.units, remember action.token
 *       case RSERVE_ACTION_STAGE:   start action.stage over action.entries, remember action.token
 *       case RSERVE_ACTION_RELEASE_EMBEDDING:  the buffer of (request_id, unit) can be reused
 *       case RSERVE_ACTION_EVENT:   tell the user
 *     }
 *   }
 *   Every action with a token is finished exactly once, also after its request was cancelled: until
 *   then the buffers that it may touch are not given back.
 *
 * Conventions (threads, ownership, structs, errors) are those of rserve.h. Arrays that rserve hands
 * out here have the element types of this header, which do not grow.
 */

#ifndef RSERVE_HOST_H_
#define RSERVE_HOST_H_

#include "rserve/rserve.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Plans of requests ----------------------------------------------------------------------- */

/** The smallest part that is encoded alone. */
typedef struct rserve_unit {
  int32_t item;            /* which item it is a part of; units of an item follow each other */
  uint32_t reserved;       /* 0 */
  int64_t tokens;          /* embedding rows, at least 1 */
  int64_t embedding_bytes; /* what the encoder writes; held until the rows are prefilled */
  int64_t pixel_bytes;     /* prepared input; held from its preparation to its encode */
} rserve_unit;

#define RSERVE_KV_KEY_BYTES 32

#define RSERVE_SPAN_F_ATOMIC 0x1u /* attended in both directions: one micro-batch has it whole */

/** The prompt's tokens [token_begin, token_begin + tokens) take the item's rows from row_begin on,
 *  counted over all units of the item. */
typedef struct rserve_span {
  int64_t token_begin;
  int64_t tokens; /* at least 1 */
  int64_t row_begin;
  int32_t item;
  uint32_t flags; /* RSERVE_SPAN_F_* */
} rserve_span;

/** What a request needs. All of it is copied. */
typedef struct rserve_host_request {
  uint32_t struct_size;
  int32_t num_items;
  uint64_t request_id;      /* the host's number, not 0, not in use */
  uint64_t user_data;       /* comes back in every event */
  int64_t prompt_tokens;    /* at least 1 */
  int64_t max_new_tokens;   /* KV room beside the prompt's; 0: 1 */
  const rserve_unit *units; /* grouped by item, items ascending; NULL with num_units 0: text */
  size_t num_units;
  const rserve_span *spans; /* ascending, not overlapping; every unit is read by one */
  size_t num_spans;
  int64_t deadline_ns;       /* on the clock of `now_ns`; then the request fails; 0: none */
  int64_t input_bytes;       /* host memory held for it, counted against the limit */
  int32_t last_reader_stage; /* the last stage that reads embeddings; 0: they enter at stage 0 */
  uint32_t flags;            /* RSERVE_REQUEST_F_NO_DETAIL, or 0 */
  /* Keys of the prompt's full KV blocks, RSERVE_KV_KEY_BYTES each, from the first block on; fewer
     or none: what has no key is not reused. A key is a digest of all that the block's keys and
     values follow from: the key of the block before it, tokens, positions, the content of items,
     model, tenant. Equal keys, equal content: then the request's first chunk may begin behind
     blocks that others have written, and its block table begins with these. */
  const uint8_t *kv_block_keys;
  size_t num_kv_block_keys;
} rserve_host_request;

#define RSERVE_HOST_REQUEST_INIT \
  { sizeof(rserve_host_request), 0, 0, 0, 0, 0, NULL, 0, NULL, 0, 0, 0, 0, 0, NULL, 0 }

/* ---- Configuration --------------------------------------------------------------------------- */

#define RSERVE_WORKER_F_STAGE 0x1u         /* hosts the pipeline stage `stage` */
#define RSERVE_WORKER_F_ENCODER 0x2u       /* hosts an encoder */
#define RSERVE_WORKER_F_ENCODER_FIRST 0x4u /* with both: encoding goes first, not the stage */

/** One timeline that takes one action at a time: a device, a process, a group of ranks. */
typedef struct rserve_worker {
  uint32_t flags; /* RSERVE_WORKER_F_*; a stage, an encoder or both */
  int32_t stage;
  int32_t depth;      /* actions issued and not finished, at most; 0: 1 */
  int32_t max_passes; /* with both: the other role runs after so many actions; 0: 8 */
} rserve_worker;

/** Zero is the default of every field but of `scheme`: there RSERVE_HOST_CONFIG_INIT has ADAPTIVE
 *  (of 0.1: RSERVE). Budgets default to no limit. Pointers are borrowed for the call. */
typedef struct rserve_host_config {
  uint32_t struct_size;
  rserve_scheme_t scheme; /* gives gate, sharing, trigger and, without `workers`, the placement */
  int32_t stages;         /* without `workers`; 0: 1 */
  int32_t encoders;       /* without `workers`; 0: 1; ADAPTIVE: also RSERVE_ENCODERS_SHARED */
  const rserve_worker *workers; /* the placement, stages 0 to n - 1 each once; NULL: the scheme's */
  size_t num_workers;

  int64_t encode_batch_tokens; /* C, or RSERVE_ENCODE_ALL; 0: 1024 */
  int64_t token_budget;        /* B; 0: 2048 */
  uint32_t flags;              /* RSERVE_ENGINE_F_VANILLA_PP, _ENCODE_ACROSS_REQUESTS */
  rserve_gate_t gate;          /* DEFAULT: the scheme's; so the next two */
  rserve_sharing_t sharing;
  rserve_trigger_t trigger;
  int64_t encode_flush_ns;     /* a batch below C waits at most so long for the request's next unit
                                  to be prepared; 0: no limit; 1: not at all */
  int32_t prepare_lanes;       /* units prepared at the same time; 0: units need no preparation */
  int32_t max_micro_batches;   /* in the pipeline; 0: the sum of the stages' depths */
  int32_t max_encode_attempts; /* of a unit whose encode failed with UNAVAILABLE; 0: 1 */
  int32_t kv_block_tokens;     /* 0: 16 */

  int64_t kv_blocks;            /* 0: 2^20 */
  int64_t embedding_bytes;      /* reserved and not yet released; 0: no limit, so the others */
  int64_t pixel_bytes;          /* prepared, not yet encoded */
  int64_t units_in_flight;      /* with a reserved embedding */
  int64_t encoder_batch_tokens; /* of one encode batch */
  int64_t input_bytes;          /* of open requests */
  int64_t queue_requests;       /* open requests */
} rserve_host_config;

#define RSERVE_HOST_CONFIG_INIT                                                                    \
  {                                                                                                \
    sizeof(rserve_host_config), RSERVE_SCHEME_ADAPTIVE, 0, 0, NULL, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, \
        0, 0, 0, 0, 0, 0, 0, 0                                                                     \
  }

/* ---- Work ------------------------------------------------------------------------------------ */

typedef struct rserve_unit_ref {
  uint64_t request_id;
  int32_t unit; /* index into rserve_host_request::units */
  uint32_t reserved;
} rserve_unit_ref;

/** The prompt tokens [token_begin, token_begin + tokens) take the unit's rows from row_begin on. */
typedef struct rserve_embedding_slice {
  int64_t token_begin;
  int64_t tokens;
  int64_t row_begin; /* within the unit */
  int32_t unit;
  uint32_t reserved;
} rserve_embedding_slice;

#define RSERVE_ENTRY_F_LAST_CHUNK 0x1u /* ends the prompt: the last stage yields a token */
#define RSERVE_ENTRY_F_ENDED 0x2u      /* its request has ended: rows must exist, values not */

/** A chunk of one request in a micro-batch: prompt tokens [token_begin, token_begin + tokens). */
typedef struct rserve_stage_entry {
  uint64_t request_id;
  int64_t token_begin;
  int64_t tokens;
  const int32_t *kv_blocks; /* the request's block table, in token order */
  size_t num_kv_blocks;
  const rserve_embedding_slice *slices; /* what the chunk reads; on stages that read embeddings */
  size_t num_slices;
  uint32_t flags; /* RSERVE_ENTRY_F_* */
  uint32_t reserved;
} rserve_stage_entry;

/* ---- The orchestrator ------------------------------------------------------------------------ */

/** The scheduler. One thread at a time: all its functions are [driver]. */
typedef struct rserve_orchestrator rserve_orchestrator;

typedef int32_t rserve_action_kind_t;
enum {
  RSERVE_ACTION_NONE = 0,    /* no more actions of this step */
  RSERVE_ACTION_PREPARE = 1, /* token; request_id, unit: make its input ready */
  RSERVE_ACTION_ENCODE = 2,  /* token; worker, units, tokens */
  RSERVE_ACTION_STAGE = 3,   /* token; worker, stage, flags, micro_batch, entries, tokens */
  RSERVE_ACTION_DROP_MICRO_BATCH = 4,  /* micro_batch goes no further: its hand-over can go */
  RSERVE_ACTION_RELEASE_PIXELS = 5,    /* request_id, unit: its prepared input is free */
  RSERVE_ACTION_RELEASE_EMBEDDING = 6, /* request_id, unit: its embedding is free */
  RSERVE_ACTION_EVENT = 7,             /* event_type, request_id, item, status, message, times */
  RSERVE_ACTION_FORGET = 8             /* request_id: nothing refers to it any more */
};

/** Of an event action, beside those of rserve.h: the submit was not accepted, `status` says why.
 *  Nothing else follows for the request. */
#define RSERVE_EVENT_REFUSED 8

#define RSERVE_ACTION_F_LAST_STAGE 0x1u

/** When a request passed which point, on the clock of `now_ns`; 0: not yet. */
typedef struct rserve_request_times {
  int64_t submitted_ns;
  int64_t first_encode_ns;  /* first batch with a unit of it issued */
  int64_t last_encode_ns;   /* last unit encoded */
  int64_t first_prefill_ns; /* first chunk issued to stage 0 */
  int64_t first_token_ns;
} rserve_request_times;

/** One thing to do. What a kind does not name is 0. Pointers are valid until the next step. */
typedef struct rserve_action {
  uint32_t struct_size;
  rserve_action_kind_t kind;
  uint64_t token; /* of PREPARE, ENCODE and STAGE: to be finished exactly once */
  uint64_t request_id;
  uint64_t user_data; /* of the request of an EVENT */
  uint64_t micro_batch;
  int64_t tokens; /* of the batch */
  int32_t unit;
  int32_t worker;
  int32_t stage;
  uint32_t flags; /* RSERVE_ACTION_F_* */
  const rserve_unit_ref *units;
  size_t num_units;
  const rserve_stage_entry *entries;
  size_t num_entries;
  rserve_event_type_t event_type;
  int32_t item; /* of ITEM_ENCODED and INPUT_RELEASED, otherwise -1 */
  rserve_status_t status;
  uint32_t reserved;
  const char *message; /* of the status, with a NUL; "" when there is none */
  size_t message_length;
  const rserve_request_times *times; /* of FIRST_TOKEN and terminal events, otherwise NULL */
} rserve_action;

#define RSERVE_ACTION_INIT                                                                      \
  {                                                                                             \
    sizeof(rserve_action), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, NULL, 0, NULL, 0, 0, 0, 0, 0, NULL, 0, \
        NULL                                                                                    \
  }

/** @param orchestrator Out: owned by the caller. INVALID_ARGUMENT names the option: a stage that is
 *  missing or double, no encoder for a trigger that needs one, a negative budget. @since 0.1 */
RSERVE_API rserve_status_t rserve_orchestrator_create(const rserve_host_config *config,
                                                      rserve_orchestrator **orchestrator,
                                                      rserve_error **err);

/** @param orchestrator Freed, with whatever is open in it; NULL is fine. @since 0.1 */
RSERVE_API void rserve_orchestrator_destroy(rserve_orchestrator *orchestrator);

/** Whether the request could ever run. INVALID_ARGUMENT for a malformed one, RESOURCE_EXHAUSTED
 *  with size, limit and option for one that can never fit. @since 0.1 */
RSERVE_API rserve_status_t rserve_orchestrator_check(const rserve_orchestrator *orchestrator,
                                                     const rserve_host_request *request,
                                                     rserve_error **err);

/* Inputs. They are queued and take effect, in order, with the next step. */

/** Brings a request. Whether it is accepted shows in an event action (ACCEPTED or REFUSED) of the
 *  next step; only a struct that cannot be read fails here. @since 0.1 */
RSERVE_API rserve_status_t rserve_orchestrator_submit(rserve_orchestrator *orchestrator,
                                                      const rserve_host_request *request,
                                                      rserve_error **err);

/** Ends a request if it is open; otherwise without effect. @since 0.1 */
RSERVE_API rserve_status_t rserve_orchestrator_cancel(rserve_orchestrator *orchestrator,
                                                      uint64_t request_id, rserve_error **err);

/** An action has ended: what it was given is not touched any more. A failed encode or stage fails
 *  every request in it (an encode that failed with UNAVAILABLE is tried again,
 *  max_encode_attempts). An unknown token is counted in rserve_stats::stale_tokens and ignored.
 *  @param kind    The action's: PREPARE, ENCODE or STAGE.
 *  @param status  RSERVE_STATUS_OK or why it failed.
 *  @param message Copied; NULL with length 0: none. @since 0.1 */
RSERVE_API rserve_status_t rserve_orchestrator_finish(rserve_orchestrator *orchestrator,
                                                      rserve_action_kind_t kind, uint64_t token,
                                                      rserve_status_t status, const char *message,
                                                      size_t message_length, rserve_error **err);

/** The end of an encode whose units fared differently: one status a unit, in batch order. The
 *  requests of failed units fail, the others go on.
 *  @param unit_status Copied. @since 0.1 */
RSERVE_API rserve_status_t rserve_orchestrator_finish_units(rserve_orchestrator *orchestrator,
                                                            uint64_t token,
                                                            const rserve_status_t *unit_status,
                                                            size_t num_units, rserve_error **err);

/** The worker began with the action; optional, makes the times of a worker with depth exact.
 *  @since 0.1 */
RSERVE_API rserve_status_t rserve_orchestrator_started(rserve_orchestrator *orchestrator,
                                                       uint64_t token, rserve_error **err);

/** The worker is gone, with all its tokens. Units that it was encoding are encoded again where
 *  another encoder is left; a lost stage ends all requests. @since 0.1 */
RSERVE_API rserve_status_t rserve_orchestrator_lose_worker(rserve_orchestrator *orchestrator,
                                                           int32_t worker, const char *message,
                                                           size_t message_length,
                                                           rserve_error **err);

/** Refuses new requests; the open ones finish. @since 0.1 */
RSERVE_API rserve_status_t rserve_orchestrator_drain(rserve_orchestrator *orchestrator,
                                                     rserve_error **err);

/** Refuses new requests and ends the open ones as CANCELLED. @since 0.1 */
RSERVE_API rserve_status_t rserve_orchestrator_abort(rserve_orchestrator *orchestrator,
                                                     rserve_error **err);

/** Applies the inputs, expires deadlines and works out the actions, which replace those of the step
 *  before.
 *  @param now_ns Any clock that does not go back. After RESOURCE_EXHAUSTED (no memory in the middle
 *  of a step) the orchestrator can only be destroyed: every call gets FAILED_PRECONDITION.
 *  @since 0.1 */
RSERVE_API rserve_status_t rserve_orchestrator_step(rserve_orchestrator *orchestrator,
                                                    int64_t now_ns, rserve_error **err);

/** The next action of the last step, to be carried out in this order; kind NONE after the last.
 *  @param action Out, written up to its struct_size. @since 0.1 */
RSERVE_API rserve_status_t rserve_orchestrator_next_action(rserve_orchestrator *orchestrator,
                                                           rserve_action *action,
                                                           rserve_error **err);

/** When to step even without inputs (deadlines, flushes); INT64_MAX: never. @since 0.1 */
RSERVE_API int64_t rserve_orchestrator_next_wake_ns(const rserve_orchestrator *orchestrator);

/** Counters as rserve_engine_get_stats. @param stats Out, written up to its struct_size.
 *  @since 0.1 */
RSERVE_API rserve_status_t rserve_orchestrator_get_stats(const rserve_orchestrator *orchestrator,
                                                         rserve_stats *stats, rserve_error **err);

/* ---- The executor ---------------------------------------------------------------------------- */

/** A batch to encode. Valid during the callback. */
typedef struct rserve_encode_job {
  uint32_t struct_size;
  int32_t worker;
  const rserve_unit_ref *units;
  size_t num_units;
  int64_t tokens;
} rserve_encode_job;

/** A micro-batch to forward through one stage. Valid during the callback. */
typedef struct rserve_stage_job {
  uint32_t struct_size;
  int32_t worker;
  int32_t stage;
  uint32_t flags;       /* RSERVE_ACTION_F_LAST_STAGE */
  uint64_t micro_batch; /* the same number on every stage: keys the hand-over */
  const rserve_stage_entry *entries;
  size_t num_entries;
  int64_t tokens;
} rserve_stage_job;

/** The host's model. Copied when an engine is created. encode, forward and take_first_token are
 *  required; any other may be NULL.
 *
 *  THREADS  prepare runs on the engine's media threads, several at a time for different units;
 *  encode and forward on the worker's own thread, one at a time a worker; the others on the
 *  engine's driver thread. All calls for a request come after its submit began and before its
 *  forget. No callback may throw, longjmp, or call poll or destroy.
 *
 *  COMPLETION  encode and forward may compute before they return, or start the work and return.
 *  Either way the end of each is told with rserve_engine_complete, exactly once, from any thread,
 *  also from inside the callback. A callback that returns another status than OK has not started
 *  the work: its action fails with that status, and there is nothing to complete. */
typedef struct rserve_executor {
  uint32_t struct_size;
  uint32_t reserved;
  void *ctx;
  /** Makes a unit's input ready. May block. NULL: units need no preparation (prepare_lanes 0). */
  rserve_status_t (*prepare)(void *ctx, uint64_t request_id, int32_t unit);
  rserve_status_t (*encode)(void *ctx, const rserve_encode_job *job, uint64_t token);
  /** Stages of one micro-batch are called in order, each after the one before has completed. */
  rserve_status_t (*forward)(void *ctx, const rserve_stage_job *job, uint64_t token);
  /** The first token of a request whose last stage is through. @param logprob Natural logarithm. */
  rserve_status_t (*take_first_token)(void *ctx, uint64_t request_id, int32_t *token,
                                      float *logprob);
  /** As the actions DROP_MICRO_BATCH, RELEASE_PIXELS, RELEASE_EMBEDDING, FORGET. */
  void (*drop_micro_batch)(void *ctx, uint64_t micro_batch);
  void (*release_pixels)(void *ctx, uint64_t request_id, int32_t unit);
  void (*release_embedding)(void *ctx, uint64_t request_id, int32_t unit);
  void (*forget)(void *ctx, uint64_t request_id);
  /** Called exactly once: when the engine has ended, or when its creation fails. */
  void (*destroy)(void *ctx);
} rserve_executor;

#define RSERVE_EXECUTOR_INIT \
  { sizeof(rserve_executor), 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL }

/** An engine over the host's model. Its requests come through rserve_engine_submit_plan; poll,
 *  cancel, drain, abort, wait fd, stats, details and destroy are those of rserve.h (a detail has no
 *  tokens, items, logits or embeddings here). What speaks of a checkpoint (submit, plan, decode,
 *  model info) gets FAILED_PRECONDITION.
 *  @param config   Borrowed for the call.
 *  @param executor Copied; its destroy runs on every failure.
 *  @param log      Copied likewise; NULL: silent.
 *  @param engine   Out: owned by the caller, who ends it with rserve_engine_destroy. [init]
 *  @since 0.1 */
RSERVE_API rserve_status_t rserve_engine_create_with_executor(const rserve_host_config *config,
                                                              const rserve_executor *executor,
                                                              const rserve_log *log,
                                                              rserve_engine **engine,
                                                              rserve_error **err);

/** Queues a request of an engine with an executor. As rserve_engine_submit, but the host gives the
 *  id, so that its executor can know the request before the call. Its deadline_ns is on
 *  CLOCK_MONOTONIC. ALREADY_EXISTS for an id in use. [any-thread] @since 0.1 */
RSERVE_API rserve_status_t rserve_engine_submit_plan(rserve_engine *engine,
                                                     const rserve_host_request *request,
                                                     rserve_error **err);

/** Tells the end of an encode or forward. Never blocks; works until the engine is destroyed, also
 *  while destroy waits.
 *  @param message Copied; NULL with length 0: none.
 *  NOT_FOUND for a token that is unknown or was completed. [any-thread] @since 0.1 */
RSERVE_API rserve_status_t rserve_engine_complete(rserve_engine *engine, uint64_t token,
                                                  rserve_status_t status, const char *message,
                                                  size_t message_length, rserve_error **err);

#ifdef __cplusplus
}
#endif

#endif /* RSERVE_HOST_H_ */
