/* Asks a model about pictures and prints what happens until the first token.
 *
 *   first_token MODEL_FOLDER [PICTURE...] QUESTION
 *
 * One thread, one poll(2) loop: this is how an event-driven host embeds the engine. Pictures are
 * lent, not copied, and freed as soon as the engine lets go of them.
 */

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rserve/rserve.h"

enum { MAX_PICTURES = 64 };

typedef struct picture {
  unsigned char *bytes;
  size_t size;
} picture;

/* Prints an error, frees it and returns the program's exit status. */
static int fail(const char *what, rserve_status_t status, rserve_error *err) {
  fprintf(stderr, "%s: %s: %s\n", what, rserve_status_name(status),
          rserve_error_message(err, NULL));
  rserve_error_destroy(err);
  return 1;
}

static int read_file(const char *path, picture *out) {
  FILE *file = fopen(path, "rb");
  long size = -1;
  if (file != NULL && fseek(file, 0, SEEK_END) == 0) size = ftell(file);
  if (size > 0 && fseek(file, 0, SEEK_SET) == 0) {
    out->bytes = malloc((size_t)size);
    if (out->bytes != NULL) out->size = fread(out->bytes, 1, (size_t)size, file);
  }
  if (file != NULL) fclose(file);
  if (out->size == 0) fprintf(stderr, "%s cannot be read\n", path);
  return out->size > 0;
}

static void print_token(rserve_engine *engine, const rserve_event *event) {
  char text[64];
  size_t length = 0;
  const int32_t token = event->u.first_token.token;
  rserve_engine_decode(engine, &token, 1, text, sizeof text, &length, NULL);
  if (length > sizeof text) length = sizeof text;
  printf("first token: \"%.*s\" (id %d, log-probability %.3f) after %.1f ms\n", (int)length, text,
         (int)token, (double)event->u.first_token.logprob,
         (double)event->u.first_token.ttft_ns / 1e6);
}

static void print_failure(rserve_engine *engine, const rserve_event *event) {
  rserve_detail *detail = NULL;
  rserve_request_detail(engine, event->request_id, &detail, NULL);
  fprintf(stderr, "the request ended with %s: %s\n", rserve_status_name(event->status),
          rserve_detail_message(detail, NULL));
  rserve_detail_destroy(detail);
}

/* Handles one event. Returns 1 after the terminal one. */
static int handle(rserve_engine *engine, const rserve_event *event, picture *pictures) {
  switch (event->type) {
    case RSERVE_EVENT_ACCEPTED:
      printf("accepted\n");
      break;
    case RSERVE_EVENT_INPUT_RELEASED:
      printf("picture %d: read, its memory is free\n", (int)event->u.item.item);
      free(pictures[event->u.item.item].bytes);
      pictures[event->u.item.item].bytes = NULL;
      break;
    case RSERVE_EVENT_ITEM_ENCODED:
      printf("picture %d: encoded to %d tokens\n", (int)event->u.item.item,
             (int)event->u.item.tokens);
      break;
    case RSERVE_EVENT_FIRST_TOKEN:
      print_token(engine, event);
      break;
    case RSERVE_EVENT_FINISHED:
      printf("finished\n");
      break;
    case RSERVE_EVENT_FAILED:
    case RSERVE_EVENT_CANCELLED:
      print_failure(engine, event);
      break;
    default: /* a newer library says more */
      break;
  }
  return (event->flags & RSERVE_EVENT_F_MORE) == 0;
}

static int run(rserve_engine *engine, const rserve_request *request, picture *pictures) {
  uint64_t id = 0;
  rserve_error *err = NULL;
  rserve_status_t status = rserve_engine_submit(engine, request, &id, &err);
  struct pollfd wait_for;
  int ended = 0;
  if (status != RSERVE_STATUS_OK) return fail("submit", status, err);

  wait_for.fd = rserve_engine_wait_fd(engine);
  wait_for.events = POLLIN;
  while (!ended) {
    rserve_event events[16];
    size_t count = 0;
    size_t i;
    if (poll(&wait_for, 1, -1) < 0) continue; /* a signal */
    status = rserve_engine_poll(engine, events, 16, sizeof events[0], &count, &err);
    if (status != RSERVE_STATUS_OK) return fail("poll", status, err);
    for (i = 0; i < count; ++i) {
      if (!handle(engine, &events[i], pictures)) continue;
      ended = 1;
      status = events[i].status;
      rserve_engine_acknowledge(engine, events[i].request_id, NULL);
    }
  }
  return status == RSERVE_STATUS_OK ? 0 : 1;
}

int main(int argc, char **argv) {
  rserve_engine_config config = RSERVE_ENGINE_CONFIG_INIT;
  rserve_request request = RSERVE_REQUEST_INIT;
  rserve_part parts[MAX_PICTURES + 1];
  picture pictures[MAX_PICTURES];
  rserve_engine *engine = NULL;
  rserve_error *err = NULL;
  rserve_status_t status;
  int num_pictures = argc - 3;
  int result = 0;
  int i;

  if (num_pictures < 0 || num_pictures > MAX_PICTURES) {
    fprintf(stderr, "usage: %s MODEL_FOLDER [PICTURE...] QUESTION\n", argv[0]);
    return 2;
  }
  if ((rserve_abi_version() >> 16) != RSERVE_ABI_MAJOR ||
      (rserve_abi_version() & 0xffff) < RSERVE_ABI_MINOR) {
    fprintf(stderr, "librserve %s does not fit this program\n", rserve_version());
    return 1;
  }

  memset(parts, 0, sizeof parts);
  memset(pictures, 0, sizeof pictures);
  for (i = 0; i < num_pictures && result == 0; ++i) {
    if (!read_file(argv[2 + i], &pictures[i])) result = 1;
    parts[i].type = RSERVE_PART_IMAGE;
    parts[i].flags = RSERVE_PART_F_BORROW;
    parts[i].data = pictures[i].bytes;
    parts[i].count = pictures[i].size;
  }
  parts[num_pictures].type = RSERVE_PART_TEXT;
  parts[num_pictures].data = argv[argc - 1];
  parts[num_pictures].count = strlen(argv[argc - 1]);
  request.parts = parts;
  request.num_parts = (size_t)num_pictures + 1;
  request.flags = RSERVE_REQUEST_F_CHAT | RSERVE_REQUEST_F_NUMBER_IMAGES;

  if (result == 0) {
    config.model_path = argv[1];
    config.model_path_length = strlen(argv[1]);
    status = rserve_engine_create(&config, &engine, &err);
    result =
        status == RSERVE_STATUS_OK ? run(engine, &request, pictures) : fail("create", status, err);
  }
  rserve_engine_destroy(engine); /* before the pictures that it may have borrowed */
  for (i = 0; i < num_pictures; ++i) free(pictures[i].bytes);
  return result;
}
