/* What an engine has loaded; a part of rserve.h. */

#ifndef RSERVE_MODEL_H_
#define RSERVE_MODEL_H_

#include <stddef.h>
#include <stdint.h>

#include "rserve/engine.h"
#include "rserve/status.h"
#include "rserve/version.h"

#ifdef __cplusplus
extern "C" {
#endif

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

#endif /* RSERVE_MODEL_H_ */
