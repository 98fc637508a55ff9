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
 * VERSIONS
 *   A program compiled with version a.b of this header works with a library of the same ABI major
 *   and at least its ABI minor:
 *     (rserve_abi_version() >> 16) == RSERVE_ABI_MAJOR
 *       && (rserve_abi_version() & 0xffff) >= RSERVE_ABI_MINOR
 */

#ifndef RSERVE_RSERVE_H_
#define RSERVE_RSERVE_H_

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define RSERVE_API __attribute__((visibility("default")))
#else
#define RSERVE_API
#endif

#define RSERVE_VERSION_MAJOR 0
#define RSERVE_VERSION_MINOR 2
#define RSERVE_VERSION_PATCH 0
#define RSERVE_ABI_MAJOR 0
#define RSERVE_ABI_MINOR 2

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Versions and statuses ------------------------------------------------------------------- */

/** The library's version, "major.minor.patch". Static storage. [any-thread] @since 0.1 */
RSERVE_API const char *rserve_version(void);

/** RSERVE_ABI_MAJOR << 16 | RSERVE_ABI_MINOR of the library. [any-thread] @since 0.1 */
RSERVE_API uint32_t rserve_abi_version(void);

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

/* ---- Errors ---------------------------------------------------------------------------------- */

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

/* ---- Callbacks ------------------------------------------------------------------------------- */

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

/* ---- Engine ---------------------------------------------------------------------------------- */

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

/** Zero is the default of every field. Pointers are borrowed for the call to create. */
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
} rserve_engine_config;

#define RSERVE_ENGINE_CONFIG_INIT                                                                 \
  {                                                                                               \
    sizeof(rserve_engine_config), RSERVE_SCHEME_RSERVE, NULL, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, \
        0, 0, NULL, 0, NULL, 0, NULL, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, NULL, NULL, 0, 0, 0, 0, 0, \
        NULL, 0, NULL, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0                                               \
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

/* ---- Requests -------------------------------------------------------------------------------- */

typedef int32_t rserve_part_type_t;
enum {
  RSERVE_PART_TOKENS = 1,   /* data: int32_t[count]; control tokens allowed, placeholders not */
  RSERVE_PART_TEXT = 2,     /* data: char[count], no NUL; a user's text, never a control token */
  RSERVE_PART_TEMPLATE = 3, /* data: char[count]; names of special tokens become the tokens */
  RSERVE_PART_IMAGE = 4,    /* data: uint8_t[count]; a PNG, JPEG, WebP, GIF or BMP file */
  RSERVE_PART_PIXELS = 5,   /* data: uint8_t[count]; width, height, row_stride_bytes, layout */
  RSERVE_PART_ROLE = 6,     /* data: char[count]; begins a message: "system", "user", "assistant" */
  RSERVE_PART_FRAMES = 7,   /* data: uint8_t[count]; a video's frames: rserve_part::frames, and
                               width, height, row_stride_bytes, layout of each */
  RSERVE_PART_EMBEDDINGS = 8, /* data: uint8_t[count]; rows made elsewhere, as
                                 rserve_part::embeddings says */
  RSERVE_PART_VIDEO = 9       /* data: uint8_t[count]; an animated GIF file as a video, whose delays
                                 say when its frames are; rserve_part::frames may say which of them
                                 are taken: fps or num_frames; NULL: 2 a second */
};

/** How pixels lie in memory: one byte a sample, top row first. */
typedef int32_t rserve_layout_t;
enum {
  RSERVE_LAYOUT_RGB8 = 0,  /* R, G, B */
  RSERVE_LAYOUT_RGBA8 = 1, /* R, G, B, A; shown over white */
  RSERVE_LAYOUT_GRAY8 = 2
};

/** Pictures, videos and embeddings only: `data` is not copied and must stay as it is until the
 *  item's INPUT_RELEASED event or the terminal event, whichever is polled first. Other parts are
 *  copied. */
#define RSERVE_PART_F_BORROW 0x1u

/** Frames of one video, chosen by the host. Every temporal patch (two frames of Qwen2.5-VL) is
 *  encoded, and its embedding released, by itself. When the frames are is said by exactly one of
 *  fps and timestamps_s; it is never guessed. */
typedef struct rserve_frames {
  uint32_t struct_size;
  int32_t num_frames;
  int64_t frame_stride_bytes; /* frame i begins at data + i * this; 0: height * row_stride_bytes */
  double fps;                 /* these frames a second */
  const double *timestamps_s; /* seconds, one a frame, ascending; copied */
  size_t num_timestamps;
} rserve_frames;

#define RSERVE_FRAMES_INIT \
  { sizeof(rserve_frames), 0, 0, 0.0, NULL, 0 }

typedef int32_t rserve_dtype_t;
enum { RSERVE_DTYPE_F32 = 0, RSERVE_DTYPE_BF16 = 1, RSERVE_DTYPE_F16 = 2 };

/** Embeddings of a picture or video that the same encoder made elsewhere: rows of `width` numbers,
 *  little-endian, without padding, in the order of the encoder's rows (time, row, column). Shape
 *  and size are checked by the submit; numbers that are not finite fail the request. */
typedef struct rserve_embeddings {
  uint32_t struct_size;
  rserve_dtype_t dtype;
  int64_t rows;   /* grid_t * grid_h * grid_w */
  int64_t width;  /* rserve_model_info::hidden_size */
  int32_t grid_t; /* temporal patches; 0: 1; above 1 of a video only */
  int32_t grid_h; /* rows of embedding rows: of patches, divided by merge_size */
  int32_t grid_w;
  uint32_t reserved;
  double seconds_per_grid; /* a video's: seconds between temporal patches; 0: a picture */
} rserve_embeddings;

#define RSERVE_EMBEDDINGS_INIT \
  { sizeof(rserve_embeddings), 0, 0, 0, 0, 0, 0, 0, 0.0 }

/** A piece of a prompt. Its size is versioned by rserve_request::part_size. */
typedef struct rserve_part {
  rserve_part_type_t type;
  uint32_t flags; /* RSERVE_PART_F_* */
  const void *data;
  size_t count;
  int32_t width; /* pixels; of RSERVE_PART_PIXELS and _FRAMES, so the fields that follow */
  int32_t height;
  int64_t row_stride_bytes; /* 0: width * bytes of a pixel */
  rserve_layout_t layout;
  uint32_t reserved;
  const rserve_frames *frames; /* of RSERVE_PART_FRAMES and perhaps _VIDEO; read during the call */
  const rserve_embeddings *embeddings; /* of RSERVE_PART_EMBEDDINGS; the same */
} rserve_part;

#define RSERVE_REQUEST_F_KEEP_LOGITS 0x1u     /* keep the last prompt token's logits */
#define RSERVE_REQUEST_F_KEEP_EMBEDDINGS 0x2u /* keep the pictures' embeddings */
/** The parts hold the tokens that begin and end a picture; otherwise they are put around each. */
#define RSERVE_REQUEST_F_NO_IMAGE_MARKERS 0x4u
/** Write the checkpoint's chat template (Qwen2.5-VL's where it brings none) around the parts, which
 *  RSERVE_PART_ROLE parts divide into messages; parts before the first one are a user's. Without a
 *  "system" message the template's default one is put first. Excludes TOKENS and TEMPLATE parts. */
#define RSERVE_REQUEST_F_CHAT 0x8u
#define RSERVE_REQUEST_F_NO_DETAIL 0x10u /* acknowledged by the poll of its terminal event */

/** With CHAT: "Picture 1: " before the first picture, and so on. */
#define RSERVE_REQUEST_F_NUMBER_IMAGES 0x20u

typedef struct rserve_request {
  uint32_t struct_size;
  uint32_t part_size; /* sizeof(rserve_part), set by RSERVE_REQUEST_INIT */
  const rserve_part *parts;
  size_t num_parts;
  uint64_t user_data; /* comes back in every event */
  int64_t timeout_ns; /* from the submit; then FAILED with DEADLINE_EXCEEDED; 0: none */
  uint32_t flags;     /* RSERVE_REQUEST_F_* */
  float temperature;  /* 0: the most probable token, ties to the lowest id */
  float top_p;        /* (0, 1]; 0: 1 */
  uint32_t reserved;
  uint64_t seed;          /* of sampling; the same request and seed give the same token */
  const char *cache_salt; /* requests share cached embeddings with those of the same salt only: a
                             tenant's name, for example; copied; NULL: the empty one */
  size_t cache_salt_length;
} rserve_request;

#define RSERVE_REQUEST_INIT \
  { sizeof(rserve_request), sizeof(rserve_part), NULL, 0, 0, 0, 0, 0.0f, 0.0f, 0, 0, NULL, 0 }

/** Queues a request. Reads headers of pictures only; never waits for other requests.
 *  @param request     Borrowed for the call; its parts copied or borrowed as their flags say. On
 *                     failure nothing is kept.
 *  @param request_id  Out: never 0, never given twice by one engine.
 *  INVALID_ARGUMENT names the part. RESOURCE_EXHAUSTED names size, limit and option: a request that
 *  can never run, a full queue, or max_unacknowledged. FAILED_PRECONDITION after drain, abort or a
 *  begun destroy.
 *  [any-thread] @since 0.1 */
RSERVE_API rserve_status_t rserve_engine_submit(rserve_engine *engine,
                                                const rserve_request *request, uint64_t *request_id,
                                                rserve_error **err);

/** Asks for a request's end. Best effort: it may still finish. Its terminal event still comes.
 *  OK again on a second call before that event; NOT_FOUND for a request that is not open.
 *  [any-thread] @since 0.1 */
RSERVE_API rserve_status_t rserve_engine_cancel(rserve_engine *engine, uint64_t request_id,
                                                rserve_error **err);

/** Refuses new requests from now on and lets the open ones finish. Returns at once.
 *  [any-thread] @since 0.1 */
RSERVE_API rserve_status_t rserve_engine_drain(rserve_engine *engine, rserve_error **err);

/** Refuses new requests from now on and ends the open ones as CANCELLED. Returns at once.
 *  [any-thread] @since 0.1 */
RSERVE_API rserve_status_t rserve_engine_abort(rserve_engine *engine, rserve_error **err);

/* ---- Events ---------------------------------------------------------------------------------- */

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

/* ---- Details --------------------------------------------------------------------------------- */

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
} rserve_detail_info;

#define RSERVE_DETAIL_INFO_INIT \
  { sizeof(rserve_detail_info), 0, 0, 0, 0, 0, 0.0f, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }

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

/* ---- Plans ----------------------------------------------------------------------------------- */

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

/** Plans a request without running it. Errors of malformed requests as submit; one that is too
 *  large is planned and says so in `fits`.
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

/* ---- What the engine is and does ------------------------------------------------------------- */

typedef struct rserve_model_info {
  uint32_t struct_size;
  int32_t vocab_size;
  int32_t hidden_size; /* width of an embedding row */
  int32_t num_layers;
  int32_t num_heads;
  int32_t num_kv_heads;
  int32_t head_dim;
  int32_t max_position_embeddings;
  int32_t vision_depth;
  int32_t vision_hidden_size;
  int32_t vision_heads;
  int32_t patch_size; /* pixels a side */
  int32_t merge_size; /* patches a side that make one token */
  int32_t num_workers;
  int64_t min_pixels; /* of a resized picture */
  int64_t max_pixels;
  int64_t weight_bytes;       /* in memory */
  int64_t kv_bytes_per_token; /* over all stages */
  int64_t kv_blocks;
  int64_t load_ns;
} rserve_model_info;

#define RSERVE_MODEL_INFO_INIT \
  { sizeof(rserve_model_info), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }

/** @param info Out, written up to its struct_size. [any-thread] @since 0.1 */
RSERVE_API rserve_status_t rserve_engine_get_model_info(const rserve_engine *engine,
                                                        rserve_model_info *info,
                                                        rserve_error **err);

typedef struct rserve_stats {
  uint32_t struct_size;
  uint32_t idle;              /* 1: nothing open and nothing lingering */
  int64_t open_requests;      /* accepted, not ended */
  int64_t lingering_requests; /* ended, a computation still holds buffers of theirs */
  int64_t embedding_bytes;
  int64_t peak_embedding_bytes;
  int64_t pixel_bytes;
  int64_t peak_pixel_bytes;
  int64_t units_in_flight;
  int64_t kv_blocks_used;
  int64_t peak_kv_blocks_used;
  int64_t input_bytes;
  int64_t encode_batches;
  int64_t encoded_units;
  int64_t encoded_tokens;
  int64_t micro_batches;
  int64_t prefilled_tokens;
  int64_t accepted;
  int64_t finished;
  int64_t failed;
  int64_t cancelled;
  int64_t refused;      /* submits that were not accepted */
  int64_t stale_tokens; /* completions of unknown or completed actions */
  /* Of the embedding cache, since the create. A unit is a picture or a temporal patch. */
  int64_t cache_hits;      /* units whose embedding was there: neither decoded nor encoded */
  int64_t cache_shared;    /* units that another open request was preparing or encoding */
  int64_t cache_misses;    /* units that were encoded */
  int64_t cache_evictions; /* embeddings dropped for room */
  int64_t cache_bytes;
  int64_t peak_cache_bytes;
} rserve_stats;

#define RSERVE_STATS_INIT                                                                         \
  {                                                                                               \
    sizeof(rserve_stats), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, \
        0, 0, 0, 0                                                                                \
  }

/** A recent copy of the counters. @param stats Out, written up to its struct_size.
 *  [any-thread] @since 0.1 */
RSERVE_API rserve_status_t rserve_engine_get_stats(const rserve_engine *engine, rserve_stats *stats,
                                                   rserve_error **err);

/** The bytes of tokens; they may begin or end inside a UTF-8 character.
 *  @param tokens    Borrowed for the call; ids that are none are skipped.
 *  @param text      Out, nullable when `capacity` is 0: at most `capacity` bytes, no NUL.
 *  @param length    Out: bytes of the whole text, also when fewer were written.
 *  [any-thread] @since 0.1 */
RSERVE_API rserve_status_t rserve_engine_decode(const rserve_engine *engine, const int32_t *tokens,
                                                size_t num_tokens, char *text, size_t capacity,
                                                size_t *length, rserve_error **err);

#ifdef __cplusplus
}
#endif

#endif /* RSERVE_RSERVE_H_ */
