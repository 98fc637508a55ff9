// Runs one pipeline stage over micro-batches: from the engine's job to the backend's work.

#ifndef RSERVE_SRC_RUNTIME_MODEL_STAGE_RUNNER_H_
#define RSERVE_SRC_RUNTIME_MODEL_STAGE_RUNNER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "rserve/cc/executor.h"
#include "src/backend/backend.h"
#include "src/runtime/model/buffer_pool.h"
#include "src/runtime/model/handover.h"
#include "src/runtime/model/request_state.h"

namespace rserve::runtime {

// Used by its worker's thread only; keeps its scratch from one micro-batch to the next.
//
// Entries whose request has ended are not computed: their KV blocks and embeddings are nobody's any
// more. Their rows stay in the hand-over, so that a row has the same place on every stage, with
// undefined values that no later stage reads (what has ended stays ended).
class StageRunner {
 public:
  // Called with the logits of a finished prompt, on the worker's thread. The span dies with the
  // call.
  using OnLogits = absl::FunctionRef<void(size_t entry, absl::Span<const float> logits)>;

  StageRunner(std::unique_ptr<backend::StageBackend> backend, int32_t hidden_size,
              int32_t vocab_size, Handover* handover);

  // `states`: one an entry of the job, null for ended ones.
  absl::Status Run(const StageJob& job, absl::Span<RequestState* const> states, OnLogits on_logits);

 private:
  // Live entries [begin, end) of the job, which lie one after another: one call of the backend.
  absl::Status RunEntries(const StageJob& job, absl::Span<RequestState* const> states, size_t begin,
                          size_t end, const float* hidden_in, float* hidden_out,
                          OnLogits on_logits);
  backend::StageEntry MakeEntry(const StageJob& job, size_t index, const RequestState& state);

  const std::unique_ptr<backend::StageBackend> backend_;
  const int64_t hidden_size_;
  const int64_t vocab_size_;
  Handover* const handover_;
  std::vector<backend::StageEntry> entries_;
  std::vector<backend::EmbeddingSlice> slices_;  // of all entries_
  std::vector<float> logits_;                    // [prompts that end here][vocab_size]
};

}  // namespace rserve::runtime

#endif  // RSERVE_SRC_RUNTIME_MODEL_STAGE_RUNNER_H_
