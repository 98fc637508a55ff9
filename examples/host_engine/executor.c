/* A model of the host's own behind rserve's engine: threads, queues, wait fd and events are the
 * engine's, encode and forward are the callbacks below.
 *
 *   executor [MILLISECONDS]   how long a picture's encode and a picture's prefill take (default 20)
 *
 * The model here is a stand-in: an "embedding" is one number a picture, "prefill" adds them up, and
 * the first token is the sum. So the program can tell that each chunk found the embeddings that it
 * reads, encoded before, in buffers that were not reused.
 */

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "rserve/host.h"

enum { PICTURES = 8, PICTURE_TOKENS = 256, TEXT_TOKENS = 16 };

struct model {
  rserve_engine *engine;
  int64_t picture_ns;
  int32_t pictures[PICTURES];   /* the host's pictures: a number each */
  int32_t embeddings[PICTURES]; /* what encode makes of them; -1: not there */
  int32_t sum;                  /* the "KV cache" */
};

static void take_time(int64_t ns) {
  struct timespec time;
  time.tv_sec = (time_t)(ns / 1000000000);
  time.tv_nsec = (long)(ns % 1000000000);
  nanosleep(&time, NULL);
}

/* On the encoder's thread. */
static rserve_status_t encode(void *ctx, const rserve_encode_job *job, uint64_t token) {
  struct model *model = ctx;
  size_t i;
  for (i = 0; i < job->num_units; ++i) {
    const int32_t unit = job->units[i].unit;
    take_time(model->picture_ns);
    model->embeddings[unit] = model->pictures[unit];
  }
  /* A device would return here and complete from its own thread. */
  return rserve_engine_complete(model->engine, token, RSERVE_STATUS_OK, NULL, 0, NULL);
}

/* On the stage's thread. A picture may be cut over several chunks: it counts where it begins. */
static rserve_status_t forward(void *ctx, const rserve_stage_job *job, uint64_t token) {
  struct model *model = ctx;
  size_t e, s;
  take_time(model->picture_ns * job->tokens / (PICTURE_TOKENS + TEXT_TOKENS));
  for (e = 0; e < job->num_entries; ++e) {
    for (s = 0; s < job->entries[e].num_slices; ++s) {
      const rserve_embedding_slice *slice = &job->entries[e].slices[s];
      if (slice->row_begin == 0) model->sum += model->embeddings[slice->unit];
    }
  }
  return rserve_engine_complete(model->engine, token, RSERVE_STATUS_OK, NULL, 0, NULL);
}

/* On the engine's driver thread, so the next two. */
static rserve_status_t take_first_token(void *ctx, uint64_t request_id, int32_t *token,
                                        float *logprob) {
  struct model *model = ctx;
  (void)request_id;
  *token = model->sum;
  *logprob = 0.0f;
  return RSERVE_STATUS_OK;
}

static void release_embedding(void *ctx, uint64_t request_id, int32_t unit) {
  struct model *model = ctx;
  (void)request_id;
  model->embeddings[unit] = -1;
}

static void check(const char *what, rserve_status_t status, rserve_error *err) {
  if (status == RSERVE_STATUS_OK) return;
  fprintf(stderr, "%s: %s: %s\n", what, rserve_status_name(status),
          rserve_error_message(err, NULL));
  exit(1);
}

static void submit(rserve_engine *engine) {
  rserve_host_request request = RSERVE_HOST_REQUEST_INIT;
  rserve_unit units[PICTURES];
  rserve_span spans[PICTURES];
  rserve_error *err = NULL;
  int i;
  memset(units, 0, sizeof units);
  memset(spans, 0, sizeof spans);
  for (i = 0; i < PICTURES; ++i) {
    units[i].item = spans[i].item = i;
    units[i].tokens = spans[i].tokens = PICTURE_TOKENS;
    units[i].embedding_bytes = PICTURE_TOKENS * 4096;
    spans[i].token_begin = i * (PICTURE_TOKENS + TEXT_TOKENS);
  }
  request.request_id = 1;
  request.num_items = PICTURES;
  request.prompt_tokens = PICTURES * (PICTURE_TOKENS + TEXT_TOKENS);
  request.units = units;
  request.num_units = PICTURES;
  request.spans = spans;
  request.num_spans = PICTURES;
  request.flags = RSERVE_REQUEST_F_NO_DETAIL;
  check("submit", rserve_engine_submit_plan(engine, &request, &err), err);
}

/* Polls until the request has ended. Returns its first token. */
static int32_t await(rserve_engine *engine, double *ttft_ms) {
  struct pollfd waiting = {-1, POLLIN, 0};
  int32_t token = -1;
  int open = 1;
  waiting.fd = rserve_engine_wait_fd(engine);
  while (open) {
    rserve_event events[16];
    rserve_error *err = NULL;
    size_t count = 0, i;
    poll(&waiting, 1, -1);
    check("poll", rserve_engine_poll(engine, events, 16, sizeof events[0], &count, &err), err);
    for (i = 0; i < count; ++i) {
      if (events[i].type == RSERVE_EVENT_FIRST_TOKEN) {
        token = events[i].u.first_token.token;
        *ttft_ms = (double)events[i].u.first_token.ttft_ns / 1e6;
      }
      if ((events[i].flags & RSERVE_EVENT_F_MORE) == 0) open = 0;
    }
  }
  return token;
}

static int run(const char *name, rserve_scheme_t scheme, int64_t picture_ns) {
  rserve_host_config config = RSERVE_HOST_CONFIG_INIT;
  rserve_executor executor = RSERVE_EXECUTOR_INIT;
  rserve_error *err = NULL;
  struct model model;
  double ttft_ms = 0;
  int32_t wanted = 0, token, i;

  memset(&model, 0, sizeof model);
  model.picture_ns = picture_ns;
  for (i = 0; i < PICTURES; ++i) {
    model.pictures[i] = 1 << i;
    model.embeddings[i] = -1;
    wanted += model.pictures[i];
  }
  executor.ctx = &model;
  executor.encode = encode;
  executor.forward = forward;
  executor.take_first_token = take_first_token;
  executor.release_embedding = release_embedding;
  config.scheme = scheme;
  config.encode_batch_tokens = PICTURE_TOKENS;
  check("create",
        rserve_engine_create_with_executor(&config, &executor, NULL, &model.engine, &err), err);
  submit(model.engine);
  token = await(model.engine, &ttft_ms);
  rserve_engine_destroy(model.engine);
  printf("%-6s first token %" PRId32 " after %.1f ms\n", name, token, ttft_ms);
  if (token != wanted) fprintf(stderr, "expected %" PRId32 "\n", wanted);
  return token == wanted;
}

int main(int argc, char **argv) {
  const double ms = argc > 1 ? strtod(argv[1], NULL) : 20;
  const int64_t picture_ns = (int64_t)(ms * 1e6);
  const int right = run("rserve", RSERVE_SCHEME_RSERVE, picture_ns);
  printf("%d pictures: encode %.1f ms, prefill %.1f ms, critical path %.1f ms\n", PICTURES,
         PICTURES * ms, PICTURES * ms, (PICTURES + 1) * ms);
  return run("epd", RSERVE_SCHEME_EPD, picture_ns) && right ? 0 : 1;
}
