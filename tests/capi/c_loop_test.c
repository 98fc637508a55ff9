/* A C99 host: requests through poll(2) on the wait fd, without sleeping. Prints what is wrong and
 * returns 1. */

#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rserve/rserve.h"

enum { NUM_REQUESTS = 12, HANG_MS = 120000, SIDE = 24 };

#define CHECK(condition)                                                        \
  do {                                                                          \
    if (!(condition)) {                                                         \
      fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition); \
      exit(1);                                                                  \
    }                                                                           \
  } while (0)

typedef struct state {
  uint64_t id;
  int accepted, released, encoded, tokens, ended;
  int32_t token;
} state;

static void on_event(rserve_engine *engine, const rserve_event *event, state *states) {
  state *s = &states[event->user_data];
  CHECK(event->user_data < NUM_REQUESTS);
  CHECK(event->reserved == 0);
  CHECK(!s->ended);
  if (s->id == 0) s->id = event->request_id;
  CHECK(s->id == event->request_id);
  CHECK(event->t_mono_ns > 0);
  switch (event->type) {
    case RSERVE_EVENT_ACCEPTED:
      s->accepted++;
      break;
    case RSERVE_EVENT_ITEM_ENCODED:
      CHECK(event->u.item.item == s->encoded);
      CHECK(event->u.item.tokens == SIDE / 8 * (SIDE / 8));
      s->encoded++;
      break;
    case RSERVE_EVENT_INPUT_RELEASED:
      CHECK(event->u.item.item >= 0);
      s->released++;
      break;
    case RSERVE_EVENT_FIRST_TOKEN:
      s->tokens++;
      s->token = event->u.first_token.token;
      CHECK(event->u.first_token.logprob <= 0);
      CHECK(event->u.first_token.ttft_ns > 0);
      break;
    case RSERVE_EVENT_FINISHED:
      CHECK(event->status == RSERVE_STATUS_OK);
      CHECK(event->u.terminal.elapsed_ns > 0);
      break;
    default:
      CHECK(!"a type that this run does not have");
  }
  if ((event->flags & RSERVE_EVENT_F_MORE) != 0) return;
  CHECK(event->type == RSERVE_EVENT_FINISHED);
  s->ended = 1;
  CHECK(rserve_engine_acknowledge(engine, event->request_id, NULL) == RSERVE_STATUS_OK);
  CHECK(rserve_engine_acknowledge(engine, event->request_id, NULL) == RSERVE_STATUS_NOT_FOUND);
}

static rserve_engine *create(const char *folder) {
  rserve_engine_config config = RSERVE_ENGINE_CONFIG_INIT;
  rserve_engine *engine = NULL;
  rserve_error *err = NULL;
  config.model_path = folder;
  config.model_path_length = strlen(folder);
  config.stages = 2;
  config.encode_batch_tokens = 8;
  config.token_budget = 16;
  config.kv_tokens = 4096;
  config.flags = RSERVE_ENGINE_F_NO_PINNING;
  if (rserve_engine_create(&config, &engine, &err) != RSERVE_STATUS_OK) {
    fprintf(stderr, "%s\n", rserve_error_message(err, NULL));
    exit(1);
  }
  return engine;
}

int main(int argc, char **argv) {
  static unsigned char pixels[2][SIDE * SIDE * 3];
  state states[NUM_REQUESTS];
  rserve_stats stats = RSERVE_STATS_INIT;
  rserve_engine *engine;
  struct pollfd wait_for;
  int open = NUM_REQUESTS;
  size_t i;

  CHECK(argc == 2);
  memset(states, 0, sizeof states);
  for (i = 0; i < sizeof pixels; ++i) ((unsigned char *)pixels)[i] = (unsigned char)(i * 37 % 251);
  engine = create(argv[1]);

  for (i = 0; i < NUM_REQUESTS; ++i) {
    rserve_request request = RSERVE_REQUEST_INIT;
    rserve_part parts[4];
    uint64_t id = 0;
    size_t p;
    memset(parts, 0, sizeof parts);
    for (p = 0; p < 4; ++p) {
      if (p % 2 == 0) {
        parts[p].type = RSERVE_PART_PIXELS;
        parts[p].flags = RSERVE_PART_F_BORROW;
        parts[p].data = pixels[p / 2];
        parts[p].count = sizeof pixels[p / 2];
        parts[p].width = SIDE;
        parts[p].height = SIDE;
      } else {
        parts[p].type = RSERVE_PART_TEXT;
        parts[p].data = "What is it?";
        parts[p].count = 11;
      }
    }
    request.parts = parts;
    request.num_parts = 4;
    request.user_data = i;
    CHECK(rserve_engine_submit(engine, &request, &id, NULL) == RSERVE_STATUS_OK);
    CHECK(id != 0);
  }

  wait_for.fd = rserve_engine_wait_fd(engine);
  wait_for.events = POLLIN;
  while (open > 0) {
    rserve_event events[5];
    size_t count = 0;
    CHECK(poll(&wait_for, 1, HANG_MS) == 1);
    /* Capacity 0 takes nothing and leaves the fd readable. */
    CHECK(rserve_engine_poll(engine, NULL, 0, sizeof(rserve_event), &count, NULL) ==
          RSERVE_STATUS_OK);
    CHECK(count == 0);
    CHECK(rserve_engine_poll(engine, events, 5, sizeof events[0], &count, NULL) ==
          RSERVE_STATUS_OK);
    CHECK(count <= 5);
    for (i = 0; i < count; ++i) {
      on_event(engine, &events[i], states);
      if ((events[i].flags & RSERVE_EVENT_F_MORE) == 0) --open;
    }
  }
  for (i = 0; i < NUM_REQUESTS; ++i) {
    CHECK(states[i].accepted == 1);
    CHECK(states[i].released == 2);
    CHECK(states[i].encoded == 2);
    CHECK(states[i].tokens == 1);
    CHECK(states[i].token == states[0].token); /* the same request, the same token */
  }
  CHECK(rserve_engine_get_stats(engine, &stats, NULL) == RSERVE_STATUS_OK);
  CHECK(stats.finished == NUM_REQUESTS);
  CHECK(stats.open_requests == 0);
  rserve_engine_destroy(engine);
  return 0;
}
