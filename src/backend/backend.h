// What a backend must do: encode batches of units, and run one pipeline stage over a micro-batch.
//
// A backend computes; it schedules nothing. The runtime gives every object below to one worker,
// which calls it from one thread at a time.
//
// Each role can do its work before the call returns, or start it: then the call returns early where
// the backend can (a GPU), and `done` is called when the work is over: once, whatever happens, on a
// thread of the backend's or inside the call, in the order in which the work was started (but at
// once for what is refused). All that a description points to stays as it is until then.
//
// Exactness (CPU): an output row depends on its own inputs and the model's shapes only - not on the
// batch it rides in, the chunk it lies in, the number of threads, or the stage cut.

#ifndef RSERVE_SRC_BACKEND_BACKEND_H_
#define RSERVE_SRC_BACKEND_BACKEND_H_

#include <cstdint>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "src/model/spec/image_plan.h"

namespace rserve::backend {

// Reports the end of work that was started. It must not throw, nor call the role that calls it.
using Done = absl::AnyInvocable<void(absl::Status) &&>;

class StoredRows;  // plan/row_store.h

// One encode unit of a batch.
struct EncodeUnit {
  model::Grid grid;
  const float* patches = nullptr;  // [grid.patches()][patch_dim], as PreprocessImage writes it
  // out: [grid.patches() / merge^2][hidden], f32. Null with `stored`: not wanted on the host.
  float* embeddings = nullptr;
  // out: the same rows in the backend's own memory, where it has a store for them.
  const StoredRows* stored = nullptr;
};

class EncoderBackend {
 public:
  virtual ~EncoderBackend() = default;
  // Encodes the units of one batch. Units do not see each other.
  virtual absl::Status Encode(absl::Span<const EncodeUnit> units) = 0;
  virtual void Start(absl::Span<const EncodeUnit> units, Done done) {
    std::move(done)(Encode(units));
  }
};

// Rows of an item's embedding that replace the token embeddings of [token_begin, token_begin +
// rows), positions counted from the start of the prompt.
struct EmbeddingSlice {
  int64_t token_begin = 0;
  int64_t rows = 0;
  const float* data = nullptr;  // first row; [rows][hidden], f32
  // Instead of `data`: rows [first_row, first_row + rows) of what an encoder has put there.
  const StoredRows* stored = nullptr;
  int64_t first_row = 0;
};

// The token that a stage would choose without temperature.
struct Likeliest {
  int32_t token = -1;  // of the largest logit, the lowest among equals
  // Natural logarithm of its probability; NaN when a logit is, or when the largest is not finite.
  float logprob = 0;
};

// One request's part of a micro-batch: prompt tokens [begin, begin + count).
struct StageEntry {
  int64_t begin = 0;
  int64_t count = 0;
  const int32_t* token_ids = nullptr;  // [count], of this chunk (first stage only)
  const int32_t* positions[3] = {};    // M-RoPE, each [count], of this chunk: temporal, h, w
  absl::Span<const EmbeddingSlice> embeddings;  // slices inside this chunk (first stage only)
  absl::Span<const int32_t> kv_blocks;          // block table of the request, in token order
  // Last stage: what follows the chunk's last token is wanted, one of these two or both.
  bool want_logits = false;
  float* logits = nullptr;         // out: [vocab_size]
  Likeliest* likeliest = nullptr;  // out; only where the stage FindsLikeliest
};

// One micro-batch on one stage. Entries that share blocks together name kMaxTableShare times the
// cache's blocks at most (geometry.h). Rows of the entries lie one after another in entry order.
struct StageWork {
  absl::Span<const StageEntry> entries;
  int64_t total_tokens = 0;
  const float* hidden_in = nullptr;  // [total_tokens][hidden]; null on the first stage
  float* hidden_out = nullptr;       // [total_tokens][hidden]; null on the last stage
  // Which rows these are, for stages that hand them over by themselves: rows [first_row, first_row
  // + total_tokens) of a micro-batch, whose number every stage gets alike.
  uint64_t micro_batch = 0;
  int64_t first_row = 0;
};

class StageBackend {
 public:
  virtual ~StageBackend() = default;
  // Runs the stage's layers over the micro-batch, writing the new tokens' keys and values into the
  // stage's own paged cache (blocks named by `kv_blocks`) and attending over [0, begin + count).
  virtual absl::Status Forward(const StageWork& work) = 0;
  virtual void Start(const StageWork& work, Done done) { std::move(done)(Forward(work)); }
  // Whether it can choose the likeliest token where the logits are, so that they need not be moved.
  virtual bool FindsLikeliest() const { return false; }
  // Nothing on this stage reads the micro-batch's incoming hidden states any more. Any thread.
  virtual void Forget(uint64_t /*micro_batch*/) {}
};

}  // namespace rserve::backend

#endif  // RSERVE_SRC_BACKEND_BACKEND_H_
