/* An engine: its configuration, its beginning and its end; a part of rserve.h. */

#ifndef RSERVE_ENGINE_H_
#define RSERVE_ENGINE_H_

#include <stddef.h>
#include <stdint.h>

#include "rserve/status.h"
#include "rserve/version.h"

#ifdef __cplusplus
extern "C" {
#endif

/** One log message. Valid during the callback. */
typedef struct rserve_log_record {
  uint32_t struct_size;
  int32_t level; /* 0 debug, 1 info, 2 warning, 3 error */
  int64_t t_mono_ns;
  const char *message; /* UTF-8, with a NUL */
  size_t message_length;
} rserve_log_record;

/** Receives the engine's log. Copied by rserve_engine_create. */
typedef struct rserve_log {
  uint32_t struct_size;
  uint32_t reserved;
  void *ctx;
  /** On any thread, several at once. Must not call rserve, throw or longjmp. NULL: no log. */
  void (*write)(void *ctx, const rserve_log_record *record);
  /** Called exactly once: when the engine has ended, or when its creation fails. NULL: nothing. */
  void (*destroy)(void *ctx);
} rserve_log;

/** Receives the progress of loading. Used by rserve_engine_create and not kept after it. */
typedef struct rserve_load_progress {
  uint32_t struct_size;
  uint32_t reserved;
  void *ctx;
  /** On any one thread at a time. Must not call rserve, throw or longjmp. NULL: no reports. */
  void (*report)(void *ctx, int64_t done_bytes, int64_t total_bytes);
  /** Called exactly once, before rserve_engine_create returns. NULL: nothing. */
  void (*destroy)(void *ctx);
} rserve_load_progress;

#define RSERVE_LOG_INIT \
  { sizeof(rserve_log), 0, NULL, NULL, NULL }
#define RSERVE_LOAD_PROGRESS_INIT \
  { sizeof(rserve_load_progress), 0, NULL, NULL, NULL }

/** A model with its workers, its caches and its open requests. */
typedef struct rserve_engine rserve_engine;

/** How encoding and prefill are coordinated. */
typedef int32_t rserve_scheme_t;
enum {
  RSERVE_SCHEME_RSERVE = 0,       /* own encoder; what is encoded is prefilled; many requests */
  RSERVE_SCHEME_RSERVE_INTRA = 1, /* the same, one request in the pipeline at a time */
  RSERVE_SCHEME_EPD = 2,          /* own encoder; a request is prefilled once all is encoded */
  RSERVE_SCHEME_COLOCATED = 3,    /* the first stage's cores encode too, then prefill */
  RSERVE_SCHEME_ADAPTIVE = 4      /* as RSERVE; order, C, B and placement by measured rates */
};

/** What may be prefilled before all of a request is encoded. */
typedef int32_t rserve_gate_t;
enum { RSERVE_GATE_DEFAULT = 0, RSERVE_GATE_STREAMING = 1, RSERVE_GATE_WHOLE_REQUEST = 2 };

/** Whose tokens share a micro-batch. */
typedef int32_t rserve_sharing_t;
enum { RSERVE_SHARING_DEFAULT = 0, RSERVE_SHARING_MANY = 1, RSERVE_SHARING_ONE_REQUEST = 2 };

/** What starts the encoding of a request. The last two need the encoder on stage 0's worker. */
typedef int32_t rserve_trigger_t;
enum {
  RSERVE_TRIGGER_DEFAULT = 0,
  RSERVE_TRIGGER_ON_ARRIVAL = 1,
  RSERVE_TRIGGER_ON_FIRST_CHUNK = 2,
  RSERVE_TRIGGER_ON_CHUNK = 3
};

/** How the matrices of the layers and of the vision blocks are held. */
typedef int32_t rserve_weights_t;
enum {
  RSERVE_WEIGHTS_STORED = 0, /* as the checkpoint has them */
  RSERVE_WEIGHTS_INT8 = 1    /* 8 bits, a scale a column; half the memory of 16 bits, faster, and
                                other logits: measure what it does to your answers */
};

/** Which request goes first; cc/policy.h, Order, says exactly. All but ARRIVAL pass an older one by
 *  a bounded time only, and need a request's encoding to start on its arrival. */
typedef int32_t rserve_order_t;
enum {
  RSERVE_ORDER_DEFAULT = 0,
  RSERVE_ORDER_ARRIVAL = 1,        /* first come, first served */
  RSERVE_ORDER_SHORTEST_FIRST = 2, /* the least work left, and those that have waited long */
  RSERVE_ORDER_FEASIBLE_FIRST = 3  /* the same among those that can still meet slo_ns */
};

/** Whether something is done; the scheme's choice by default. */
typedef int32_t rserve_choice_t;
enum { RSERVE_CHOICE_DEFAULT = 0, RSERVE_CHOICE_YES = 1, RSERVE_CHOICE_NO = 2 };

/** rserve_engine_config::encoders of RSERVE_SCHEME_ADAPTIVE: the first stage's cores encode too. */
#define RSERVE_ENCODERS_SHARED (-1)

/** rserve_engine_config::encode_batch_tokens: all pictures of a request in one batch. */
#define RSERVE_ENCODE_ALL INT64_MAX

#define RSERVE_ENGINE_F_VANILLA_PP 0x1u             /* one chunk of a request in the pipeline */
#define RSERVE_ENGINE_F_ENCODE_ACROSS_REQUESTS 0x2u /* an encode batch may mix requests */
#define RSERVE_ENGINE_F_NO_PINNING 0x4u             /* do not pin worker threads to cores */
/** Prompts that begin as earlier ones of the same cache_salt did (tokens, pictures, positions)
 * reuse the KV blocks that these have left: pictures in them are neither decoded nor encoded. A
 * submit then hashes its pictures. Not for requests with RSERVE_REQUEST_F_KEEP_EMBEDDINGS. */
#define RSERVE_ENGINE_F_KV_REUSE 0x8u
/** CUDA: a row's bits may depend on its batch; a little faster. */
#define RSERVE_ENGINE_F_NOT_DETERMINISTIC 0x10u
/** CUDA, with NOT_DETERMINISTIC: the vision tower's attention by cuDNN where it covers the sizes. */
#define RSERVE_ENGINE_F_CUDNN_ATTENTION 0x20u
/** CUDA: pictures' embeddings go through host memory. By default each GPU of the first stage sets
 * embedding_bytes / 2 aside for them. */
#define RSERVE_ENGINE_F_HOST_EMBEDDINGS 0x40u

/** The cores of one worker; no cores: its threads are not pinned. */
typedef struct rserve_core_list {
  const int32_t *cores;
  size_t num_cores;
} rserve_core_list;

/** What computes. */
typedef int32_t rserve_backend_t;
enum {
  RSERVE_BACKEND_CPU = 0,
  RSERVE_BACKEND_CUDA = 1 /* NVIDIA GPUs: librserve_cuda.so, opened at run time */
};

/** How an encoder and a stage on the same GPU share it. */
typedef int32_t rserve_device_sharing_t;
enum {
  RSERVE_DEVICE_SHARING_STREAMS = 0, /* side by side, as the GPU puts their kernels */
  RSERVE_DEVICE_SHARING_TURNS = 1,   /* one batch after another */
  RSERVE_DEVICE_SHARING_PARTS = 2    /* each has multiprocessors of its own */
};

/** How hidden states get from a stage's GPU to the next one's. */
typedef int32_t rserve_stage_handover_t;
enum {
  RSERVE_STAGE_HANDOVER_PEER = 0, /* copies from GPU to GPU */
  RSERVE_STAGE_HANDOVER_NCCL = 1, /* NCCL's sends and receives */
  RSERVE_STAGE_HANDOVER_HOST = 2  /* through host memory */
};

/** Zero is the default of every field but of `scheme`: there RSERVE_ENGINE_CONFIG_INIT has ADAPTIVE
 *  (of 0.1: RSERVE). Pointers are borrowed for the call to create. */
typedef struct rserve_engine_config {
  uint32_t struct_size;
  rserve_scheme_t scheme;
  const char *model_path; /* required: a folder with config.json, tokenizer.json, *.safetensors */
  size_t model_path_length;

  int32_t stages;              /* pipeline stages; 0: 1 */
  int32_t encoders;            /* encoder workers; 0: 1, or with RSERVE_SCHEME_ADAPTIVE as
                                  measured when it is made; ignored by RSERVE_SCHEME_COLOCATED */
  int64_t encode_batch_tokens; /* C, picture tokens an encode batch at least; 0: 1024 */
  int64_t token_budget;        /* B, tokens of a micro-batch at most; 0: 2048, ADAPTIVE: 4096 */
  uint32_t flags;              /* RSERVE_ENGINE_F_* */
  rserve_gate_t gate;          /* DEFAULT: the scheme's; so the next two */
  rserve_sharing_t sharing;
  rserve_trigger_t trigger;
  int64_t encode_flush_ns;   /* a batch below C waits at most so long for the request's next
                                picture to be prepared; 0: no limit; 1: not at all */
  int32_t max_micro_batches; /* in the pipeline; 0: as many as the stages take, ADAPTIVE: twice */
  int32_t media_threads;     /* decode and resize pictures; 0: 1 */

  int32_t threads;             /* of all workers together; 0: the cores this process may use */
  int32_t kv_block_tokens;     /* tokens a KV block; 0: 16 */
  const int32_t *stage_layers; /* layers of each stage; NULL: even */
  size_t num_stage_layers;
  const int32_t *worker_threads; /* one a worker, stages then encoders; NULL: by their cores */
  size_t num_worker_threads;
  const rserve_core_list *worker_cores; /* in the same order; NULL: dealt out */
  size_t num_worker_cores;

  int64_t kv_tokens;            /* KV cache; 0: four full contexts, at most 2 GiB */
  int64_t embedding_bytes;      /* encoded, not yet prefilled; 0: 256 MiB */
  int64_t pixel_bytes;          /* prepared, not yet encoded; 0: 512 MiB */
  int64_t encoder_batch_tokens; /* of one encode batch at most; 0: 16384 */
  int64_t units_in_flight;      /* pictures with an embedding; 0: no limit */
  int64_t input_bytes;          /* pictures, text and kept results of open requests; 0: 1 GiB */
  int64_t queue_requests;       /* open requests; 0: 1024 */
  int64_t max_prompt_tokens;    /* 0: the model's context */
  int64_t max_image_pixels;     /* width * height of a source picture; 0: 2^27 */
  int64_t max_unacknowledged;   /* ended requests whose detail is kept; then submit is refused until
                                   some are acknowledged; 0: 65536 */

  const rserve_log *log;                     /* NULL: silent */
  const rserve_load_progress *load_progress; /* NULL: none */

  /* Embeddings kept for requests that bring the same pictures again; equal pictures of open
     requests are then encoded once. 0: none are, every picture is encoded */
  int64_t embedding_cache_bytes;
  rserve_weights_t weights;
  uint32_t reserved; /* 0 */

  rserve_backend_t backend;
  int32_t tensor_parallel; /* ranks of each stage: threads on the CPU, GPUs with CUDA; 0: 1 */
  const int32_t *devices;  /* CUDA: GPU numbers, one a rank of each stage, then one an encoder; a
                              single one: everything is there; NULL: GPU 0 */
  size_t num_devices;
  const char *cuda_library; /* CUDA: the file; NULL: librserve_cuda.so beside this library or in
                               ../lib, else where the system looks */
  size_t cuda_library_length;
  rserve_device_sharing_t device_sharing;
  int32_t encoder_percent; /* of the multiprocessors, with SHARING_PARTS; 0: 25 */

  rserve_order_t order;
  int32_t order_stretch;    /* how many times its own work a request may be passed; 0: 8; to 1000 */
  int64_t order_guard_ns;   /* but by none that came so long after it; 0: 30 s, ADAPTIVE: 60 s */
  int64_t slo_ns;           /* of the TTFT; RSERVE_ORDER_FEASIBLE_FIRST needs it */
  int64_t min_token_budget; /* square_root_budget: B at least; 0: 256 */
  rserve_choice_t square_root_budget;    /* B follows the load, up to token_budget */
  rserve_choice_t adaptive_encode_batch; /* C follows the load; by default not if it is given */

  rserve_stage_handover_t stage_handover;
  int32_t graph_rows; /* CUDA: work on at most so many rows (patches, tokens) that comes again with
                         the same sizes is recorded as a graph; 0: 1024; -1: none is */
} rserve_engine_config;

#define RSERVE_ENGINE_CONFIG_INIT                                                                 \
  {                                                                                               \
    sizeof(rserve_engine_config), RSERVE_SCHEME_ADAPTIVE, NULL, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, \
        0, 0, NULL, 0, NULL, 0, NULL, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, NULL, NULL, 0, 0, 0, 0, 0, \
        NULL, 0, NULL, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0                                         \
  }

/** The number of a scheme's name ("rserve", "rserve_intra", "epd", "colocated", "adaptive").
 *  @param name    Borrowed for the call.
 *  @param scheme  Out.
 *  INVALID_ARGUMENT names the choices. [any-thread] @since 0.1 */
RSERVE_API rserve_status_t rserve_scheme_parse(const char *name, size_t name_length,
                                               rserve_scheme_t *scheme, rserve_error **err);

/** Loads a model and starts its workers. Blocks while it reads the weights.
 *  @param config  Borrowed for the call.
 *  @param engine  Out: owned by the caller, who ends it with rserve_engine_destroy.
 *  NOT_FOUND: a folder or file is missing. INVALID_ARGUMENT: a file is damaged or an option out of
 *  range, by name. RESOURCE_EXHAUSTED: out of memory. UNAVAILABLE: the backend is not there - its
 *  library, the driver or the GPU - with the reason. [init] @since 0.1 */
RSERVE_API rserve_status_t rserve_engine_create(const rserve_engine_config *config,
                                                rserve_engine **engine, rserve_error **err);

/** Ends the engine: aborts what is open and blocks until computations under way are over. Events
 *  that were not polled are lost. Borrowed pictures are free afterwards.
 *  @param engine Consumed; NULL is fine. Calls that other threads are still in end first; calls
 *  that begin after destroy has begun get FAILED_PRECONDITION, and after it has returned are
 *  errors of the caller. [init] @since 0.1 */
RSERVE_API void rserve_engine_destroy(rserve_engine *engine);

#ifdef __cplusplus
}
#endif

#endif /* RSERVE_ENGINE_H_ */
