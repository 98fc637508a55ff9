// What the executor keeps of a request between its submit and its Forget.

#ifndef RSERVE_SRC_RUNTIME_MODEL_REQUEST_STATE_H_
#define RSERVE_SRC_RUNTIME_MODEL_REQUEST_STATE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "rserve/cc/executor.h"
#include "rserve/cc/model_engine.h"
#include "src/backend/plan/row_store.h"
#include "src/model/spec/image_plan.h"
#include "src/runtime/model/buffer_pool.h"
#include "src/runtime/model/embedding_cache.h"
#include "src/runtime/model/unit_source.h"

namespace rserve::runtime {

// A unit's buffers are touched by one action at a time: the engine hands a unit
// from its preparation to its encode to the stages that read it, and releases it when none is left.
struct UnitState {
  model::ImagePlan plan;  // of this unit alone: grid.t is 1
  int32_t item = 0;
  UnitSource source;          // empty after its preparation, or when that is not needed
  bool supplied = false;      // its embedding is brought, not encoded
  std::optional<Digest> key;  // EmbeddingKey, where it was needed before the preparation
  // [plan.grid.patches()][patch_dim]; units of the same content may share them.
  std::shared_ptr<PooledBuffer> patches;
  EmbeddingCache::Handle entry;  // from its preparation to its encode, with the cache on
  // Its rows: on the host, [plan.tokens][hidden], or in the backend's memory, or both.
  PooledBuffer embeddings;
  backend::StoredRows stored;
  int64_t first_row = 0;  // of all the request's embedding rows
};

struct RequestState {
  std::vector<int32_t> token_ids;
  std::vector<int32_t> positions;  // [3][token_ids.size()]
  std::vector<UnitState> units;
  Sampling sampling;
  std::string cache_salt;
  bool keep_logits = false;
  std::vector<float> kept_embeddings;  // [rows of all units][hidden], or empty: not kept
  // Set by the last stage with the last chunk.
  absl::Status first_token_status = absl::UnknownError("no first token yet");
  FirstToken first_token;
};

}  // namespace rserve::runtime

#endif  // RSERVE_SRC_RUNTIME_MODEL_REQUEST_STATE_H_
