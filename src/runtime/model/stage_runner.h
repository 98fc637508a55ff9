// Runs one pipeline stage over micro-batches: from the engine's job to the backend's work.

#ifndef RSERVE_SRC_RUNTIME_MODEL_STAGE_RUNNER_H_
#define RSERVE_SRC_RUNTIME_MODEL_STAGE_RUNNER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "rserve/cc/executor.h"
#include "src/backend/backend.h"
#include "src/runtime/model/handover.h"
#include "src/runtime/model/request_state.h"

namespace rserve::runtime {

// Its worker's thread starts micro-batches; one that a device works on is finished on a thread of
// the backend's while others are started.
//
// Entries whose request has ended are not computed: their KV blocks and embeddings are nobody's any
// more. Their rows stay in the hand-over, so that a row has the same place on every stage, with
// undefined values that no later stage reads (what has ended stays ended).
class StageRunner {
 public:
  // What the last stage has of a finished prompt. A backend that finds the likeliest token does so
  // for prompts without temperature, and gives logits only where they are kept.
  struct PromptEnd {
    absl::Span<const float> logits;                 // [vocab_size], or empty
    const backend::Likeliest* likeliest = nullptr;  // null: to be chosen from the logits
  };
  // Called for a finished prompt, before the micro-batch is done. What it gets dies with the call.
  using OnPromptEnd = absl::AnyInvocable<void(size_t entry, const PromptEnd& end)>;
  using States = std::vector<std::shared_ptr<RequestState>>;

  // `max_table_blocks`: KV blocks that the entries of one call of the backend name together, at
  // most; requests that share blocks could name any number. Not below the blocks of one request.
  StageRunner(std::unique_ptr<backend::StageBackend> backend, int32_t hidden_size,
              int32_t vocab_size, int64_t max_table_blocks, Handover* handover);
  ~StageRunner();

  // `states`: one an entry of the job, null for ended ones; kept until the end. `done` is called
  // once, inside the call or on a thread of the backend's.
  void Start(StageJob job, States states, OnPromptEnd on_prompt_end, Done done);
  // The micro-batch does not reach this stage any more. Any thread.
  void Forget(uint64_t micro_batch) { backend_->Forget(micro_batch); }

 private:
  struct Run;    // a micro-batch on its way
  struct Group;  // what of it is one call of the backend

  // Live entries [begin, end) of the job, which lie one after another.
  void StartGroup(const std::shared_ptr<Run>& run, size_t begin, size_t end, int64_t row);
  void EndGroup(Run& run, const std::shared_ptr<Group>& group, absl::Status status);
  // One of what the run waits for is over.
  void Leave(Run& run, absl::Status status);
  backend::StageEntry MakeEntry(const Run& run, size_t index, Group* group) const;
  std::shared_ptr<Group> TakeGroup() ABSL_LOCKS_EXCLUDED(mutex_);

  const std::unique_ptr<backend::StageBackend> backend_;
  const bool finds_likeliest_;
  const int64_t hidden_size_;
  const int64_t vocab_size_;
  const int64_t max_table_blocks_;
  Handover* const handover_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<Group>> idle_ ABSL_GUARDED_BY(mutex_);  // their memory is used again
};

}  // namespace rserve::runtime

#endif  // RSERVE_SRC_RUNTIME_MODEL_STAGE_RUNNER_H_
