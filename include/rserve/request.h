/* Requests: their parts, and how they enter and leave an engine; a part of rserve.h. */

#ifndef RSERVE_REQUEST_H_
#define RSERVE_REQUEST_H_

#include <stddef.h>
#include <stdint.h>

#include "rserve/engine.h"
#include "rserve/status.h"
#include "rserve/version.h"

#ifdef __cplusplus
extern "C" {
#endif

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

#ifdef __cplusplus
}
#endif

#endif /* RSERVE_REQUEST_H_ */
