// What the executor keeps of a request between its submit and its Forget.

#ifndef RSERVE_SRC_RUNTIME_MODEL_REQUEST_STATE_H_
#define RSERVE_SRC_RUNTIME_MODEL_REQUEST_STATE_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "rserve/cc/executor.h"
#include "rserve/cc/model_engine.h"
#include "src/model/spec/image_plan.h"
#include "src/runtime/model/buffer_pool.h"

namespace rserve::runtime {

// A picture as the host gave it. `bytes` points into `owned` or is the host's.
struct ImageSource {
  bool encoded = false;  // a PNG or JPEG file; otherwise RGB8 rows
  std::vector<uint8_t> owned;
  absl::Span<const uint8_t> bytes;
  int32_t width = 0, height = 0;  // oriented
  int64_t row_stride_bytes = 0;   // of RGB8 rows
};

// A picture is one unit. Its buffers are touched by one action at a time: the engine hands a unit
// from its preparation to its encode to the stages that read it, and releases it when none is left.
struct UnitState {
  model::ImagePlan plan;
  ImageSource source;       // empty after its preparation
  PooledBuffer patches;     // [plan.grid.patches()][patch_dim]
  PooledBuffer embeddings;  // [plan.tokens][hidden]
  int64_t first_row = 0;    // of all the request's embedding rows
};

struct RequestState {
  std::vector<int32_t> token_ids;
  std::vector<int32_t> positions;  // [3][token_ids.size()]
  std::vector<UnitState> units;
  Sampling sampling;
  bool keep_logits = false;
  std::vector<float> kept_embeddings;  // [rows of all units][hidden], or empty: not kept
  // Set by the last stage with the last chunk.
  absl::Status first_token_status = absl::UnknownError("no first token yet");
  FirstToken first_token;
};

}  // namespace rserve::runtime

#endif  // RSERVE_SRC_RUNTIME_MODEL_REQUEST_STATE_H_
