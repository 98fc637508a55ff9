/* An engine with a loop, workers and a model of its own, scheduled by rserve_orchestrator.
 *
 *   own_loop            real time: the two workers are timers that take as long as devices would
 *   own_loop --virtual  the same in virtual time, in an instant: the orchestrator has no clock
 *
 * One worker encodes pictures, the other prefills. The program sends one request of 8 pictures under
 * two schemes and prints its time to first token beside the critical path: the largest, over the
 * pictures, of the time at which the picture can be encoded plus the prefill from there on.
 */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "rserve/host.h"

enum { PICTURES = 8, PICTURE_TOKENS = 256, TEXT_TOKENS = 16, LAST_TEXT_TOKENS = 32 };
#define EMBEDDING_BYTES (PICTURE_TOKENS * 4096)
#define ENCODE_NS 20000000    /* a picture */
#define PREFILL_TOKEN_NS 75000 /* a token */

/* What a worker is doing. */
struct running {
  rserve_action_kind_t kind; /* NONE: idle */
  uint64_t token;
  int64_t end_ns;
};

static int64_t clock_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void sleep_until(int64_t at_ns) {
  struct timespec at;
  at.tv_sec = (time_t)(at_ns / 1000000000);
  at.tv_nsec = (long)(at_ns % 1000000000);
  clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
}

static void check(const char *what, rserve_status_t status, rserve_error *err) {
  if (status == RSERVE_STATUS_OK) return;
  fprintf(stderr, "%s: %s: %s\n", what, rserve_status_name(status),
          rserve_error_message(err, NULL));
  exit(1);
}

/* The plan of a request: each picture with some text before it, and text at the end. */
struct plan {
  rserve_unit units[PICTURES];
  rserve_span spans[PICTURES];
  int64_t prompt_tokens;
};

static void make_plan(struct plan *plan) {
  int64_t at = 0;
  int i;
  memset(plan, 0, sizeof *plan);
  for (i = 0; i < PICTURES; ++i) {
    at += TEXT_TOKENS;
    plan->units[i].item = i;
    plan->units[i].tokens = PICTURE_TOKENS;
    plan->units[i].embedding_bytes = EMBEDDING_BYTES;
    plan->spans[i].item = i;
    plan->spans[i].token_begin = at;
    plan->spans[i].tokens = PICTURE_TOKENS;
    at += PICTURE_TOKENS;
  }
  plan->prompt_tokens = at + LAST_TEXT_TOKENS;
}

static int64_t critical_path_ns(const struct plan *plan) {
  int64_t longest = plan->prompt_tokens * PREFILL_TOKEN_NS;
  int i;
  for (i = 0; i < PICTURES; ++i) {
    const int64_t path = (i + 1) * (int64_t)ENCODE_NS +
                         (plan->prompt_tokens - plan->spans[i].token_begin) * PREFILL_TOKEN_NS;
    if (path > longest) longest = path;
  }
  return longest;
}

/* Starts what an action says. A real engine launches its kernels here: on action->units, whose
 * embeddings it finds by (request_id, unit), or on action->entries with their KV blocks. */
static void start(struct running *worker, const rserve_action *action, int64_t now_ns) {
  worker->kind = action->kind;
  worker->token = action->token;
  worker->end_ns = now_ns + (action->kind == RSERVE_ACTION_ENCODE
                                 ? (int64_t)action->num_units * ENCODE_NS
                                 : action->tokens * PREFILL_TOKEN_NS);
}

/* Carries out the actions of a step. Returns the time to first token once it is known, else 0. */
static int64_t carry_out(rserve_orchestrator *orchestrator, struct running *workers,
                         int64_t now_ns) {
  rserve_action action = RSERVE_ACTION_INIT;
  rserve_error *err = NULL;
  int64_t ttft_ns = 0;
  for (;;) {
    check("next_action", rserve_orchestrator_next_action(orchestrator, &action, &err), err);
    switch (action.kind) {
      case RSERVE_ACTION_NONE:
        return ttft_ns;
      case RSERVE_ACTION_ENCODE:
      case RSERVE_ACTION_STAGE:
        start(&workers[action.worker], &action, now_ns);
        break;
      case RSERVE_ACTION_EVENT:
        if (action.event_type == RSERVE_EVENT_FIRST_TOKEN) {
          ttft_ns = action.times->first_token_ns - action.times->submitted_ns;
        } else if (action.status != RSERVE_STATUS_OK) {
          fprintf(stderr, "request %" PRIu64 ": %s\n", action.request_id, action.message);
          exit(1);
        }
        break;
      default: /* releases: a real engine reuses its buffers from here on */
        break;
    }
  }
}

/* Ends what is over at `now_ns`. */
static void finish(rserve_orchestrator *orchestrator, struct running *workers, int64_t now_ns) {
  rserve_error *err = NULL;
  int w;
  for (w = 0; w < 2; ++w) {
    if (workers[w].kind == RSERVE_ACTION_NONE || workers[w].end_ns > now_ns) continue;
    check("finish",
          rserve_orchestrator_finish(orchestrator, workers[w].kind, workers[w].token,
                                     RSERVE_STATUS_OK, NULL, 0, &err),
          err);
    workers[w].kind = RSERVE_ACTION_NONE;
  }
}

static int64_t next_ns(const rserve_orchestrator *orchestrator, const struct running *workers) {
  int64_t next = rserve_orchestrator_next_wake_ns(orchestrator);
  int w;
  for (w = 0; w < 2; ++w) {
    if (workers[w].kind != RSERVE_ACTION_NONE && workers[w].end_ns < next) next = workers[w].end_ns;
  }
  return next;
}

static int64_t run(rserve_scheme_t scheme, const struct plan *plan, int in_virtual_time) {
  rserve_host_config config = RSERVE_HOST_CONFIG_INIT;
  rserve_host_request request = RSERVE_HOST_REQUEST_INIT;
  rserve_orchestrator *orchestrator = NULL;
  rserve_error *err = NULL;
  struct running workers[2] = {{0, 0, 0}, {0, 0, 0}}; /* 0: the stage, 1: the encoder */
  int64_t now_ns = in_virtual_time ? 1 : clock_ns();
  int64_t ttft_ns = 0;

  config.scheme = scheme; /* one stage and one encoder, each a worker */
  config.encode_batch_tokens = PICTURE_TOKENS;
  config.embedding_bytes = (int64_t)PICTURES * EMBEDDING_BYTES;
  check("create", rserve_orchestrator_create(&config, &orchestrator, &err), err);

  request.request_id = 1;
  request.num_items = PICTURES;
  request.prompt_tokens = plan->prompt_tokens;
  request.units = plan->units;
  request.num_units = PICTURES;
  request.spans = plan->spans;
  request.num_spans = PICTURES;
  check("submit", rserve_orchestrator_submit(orchestrator, &request, &err), err);

  while (ttft_ns == 0) {
    int64_t next;
    check("step", rserve_orchestrator_step(orchestrator, now_ns, &err), err);
    ttft_ns = carry_out(orchestrator, workers, now_ns);
    next = next_ns(orchestrator, workers);
    if (ttft_ns != 0 || next == INT64_MAX) break;
    if (in_virtual_time) {
      now_ns = next;
    } else {
      sleep_until(next);
      now_ns = clock_ns();
    }
    finish(orchestrator, workers, now_ns);
  }
  rserve_orchestrator_destroy(orchestrator);
  return ttft_ns;
}

int main(int argc, char **argv) {
  const int in_virtual_time = argc > 1 && strcmp(argv[1], "--virtual") == 0;
  const rserve_scheme_t schemes[] = {RSERVE_SCHEME_RSERVE, RSERVE_SCHEME_EPD};
  const char *names[] = {"rserve", "epd"};
  struct plan plan;
  int i;
  make_plan(&plan);
  printf("8 pictures: encode %.1f ms, prefill %.1f ms, critical path %.1f ms\n",
         PICTURES * ENCODE_NS / 1e6, (double)plan.prompt_tokens * PREFILL_TOKEN_NS / 1e6,
         (double)critical_path_ns(&plan) / 1e6);
  for (i = 0; i < 2; ++i) {
    printf("%-6s TTFT %.1f ms\n", names[i],
           (double)run(schemes[i], &plan, in_virtual_time) / 1e6);
  }
  return 0;
}
