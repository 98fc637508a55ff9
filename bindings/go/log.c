/* The engine's log callbacks, which call back into Go. */

#include <rserve/rserve.h>

#include "_cgo_export.h"

static void write_log(void *ctx, const rserve_log_record *record) {
  rserveGoLog((uintptr_t)ctx, record->level, record->t_mono_ns, (char *)record->message,
              record->message_length);
}

static void destroy_log(void *ctx) { rserveGoLogEnd((uintptr_t)ctx); }

void rserve_go_log_init(rserve_log *log, uintptr_t handle) {
  const rserve_log init = RSERVE_LOG_INIT;
  *log = init;
  log->ctx = (void *)handle;
  log->write = write_log;
  log->destroy = destroy_log;
}
