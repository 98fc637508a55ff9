// ModelExecutor: a Qwen2.5-VL model on a backend's workers, as an Executor.

#ifndef RSERVE_SRC_RUNTIME_MODEL_MODEL_EXECUTOR_H_
#define RSERVE_SRC_RUNTIME_MODEL_MODEL_EXECUTOR_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "rserve/cc/executor.h"
#include "rserve/cc/model_engine.h"
#include "rserve/cc/orchestrator.h"
#include "src/backend/backend.h"
#include "src/runtime/model/buffer_pool.h"
#include "src/runtime/model/detail_table.h"
#include "src/runtime/model/embedding_cache.h"
#include "src/runtime/model/handover.h"
#include "src/runtime/model/loaded_model.h"
#include "src/runtime/model/request_state.h"
#include "src/runtime/model/stage_runner.h"

namespace rserve::runtime {

// The mutex guards which requests there are; what a state holds is passed from action to action by
// the engine (executor.h, thread rules). On the CPU, Encode and Forward compute before they return;
// what a device works on is finished on a thread of the backend's.
class ModelExecutor final : public Executor {
 public:
  // What runs on one worker; null: the worker has not this role.
  struct Roles {
    std::unique_ptr<backend::EncoderBackend> encoder;
    std::unique_ptr<backend::StageBackend> stage;
  };
  // The roles of all workers, with the stages' KV caches. Errors as BackendSet.
  static absl::StatusOr<std::vector<Roles>> MakeRoles(BackendSet& backend,
                                                      absl::Span<const WorkerInfo> workers);

  // `roles`: by worker. `model` and `details` outlive the executor. `max_image_pixels` and
  // `embedding_cache_bytes` as in ModelEngineOptions.
  ModelExecutor(const LoadedModel& model, std::vector<Roles> roles, const OrchestratorConfig& core,
                int64_t max_image_pixels, int64_t embedding_cache_bytes, DetailTable* details);
  ~ModelExecutor() override;

  // Before the engine's Submit of the request. [any-thread]
  void Add(RequestId request, std::unique_ptr<RequestState> state) ABSL_LOCKS_EXCLUDED(mutex_);

  absl::Status Prepare(UnitRef unit) override;
  void Encode(EncodeJob job, Done done) override;
  void Forward(StageJob job, Done done) override;
  void DropMicroBatch(uint64_t micro_batch) override;
  void ReleasePixels(UnitRef unit) override;
  void ReleaseEmbedding(UnitRef unit) override;
  absl::Status TakeFirstToken(RequestId request, FirstToken* out) override;
  void Forget(RequestId request) override ABSL_LOCKS_EXCLUDED(mutex_);

  // What the buffers take in memory. [any-thread]
  const BufferPool& pixel_pool() const { return pixels_; }
  const BufferPool& embedding_pool() const { return embeddings_; }
  EmbeddingCacheStats cache_stats() const {
    return cache_ == nullptr ? EmbeddingCacheStats{} : cache_->stats();
  }

 private:
  struct Lane {
    std::unique_ptr<backend::EncoderBackend> encoder;
    std::unique_ptr<StageRunner> stage;
  };
  // An encode batch on its way. What it has taken upon itself and not published when it goes, the
  // cache gives up.
  struct Batch {
    explicit Batch(EmbeddingCache* embeddings) : cache(embeddings) {}
    ~Batch() { GiveUp(); }
    Batch(const Batch&) = delete;
    Batch& operator=(const Batch&) = delete;
    void GiveUp();

    EmbeddingCache* const cache;
    EncodeJob job;
    std::vector<std::shared_ptr<RequestState>> held;  // by unit of the job
    std::vector<UnitState*> mine;                     // encoded in this batch, by nobody else
    std::vector<UnitState*> elsewhere;                // by another worker, or earlier in this batch
    std::vector<backend::EncodeUnit> units;           // of `mine`
  };

  std::shared_ptr<RequestState> Find(RequestId request) const ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status PrepareUnit(UnitState& unit, const std::string& salt);
  absl::Status MakePatches(UnitState& unit);
  // The units' requests and places for their embeddings; which of them are to be encoded. Rows go
  // where the backend keeps them, and to host memory where it keeps none, or where a cache or the
  // request's detail takes them from there.
  absl::Status TakeUnits(Batch* batch, std::vector<UnitState*>* todo);
  // Copies what is there and says who encodes the others.
  void ShareOut(const std::vector<UnitState*>& todo, Batch* batch);
  // The encode of `mine` is over.
  absl::Status Publish(Batch& batch, absl::Status status);
  absl::Status EncodeAndWait(Batch& batch, Lane& lane);
  void KeepEmbeddings(Batch& batch);
  // A place for the unit's rows in the backend's memory, where there is room.
  void TakeRows(UnitState* unit);
  void FinishPrompt(RequestId request, RequestState& state, const StageRunner::PromptEnd& end);

  const LoadedModel& model_;
  const int64_t max_image_pixels_;
  DetailTable* const details_;
  BufferPool pixels_;
  BufferPool embeddings_;
  backend::RowStore* const rows_;          // of the backend; null: it has none
  std::unique_ptr<EmbeddingCache> cache_;  // null: off. After the pools, whose buffers it holds
  Handover handover_;
  std::vector<Lane> lanes_;  // by worker
  mutable std::mutex mutex_;
  // After the pools: states hold their buffers.
  absl::flat_hash_map<RequestId, std::shared_ptr<RequestState>> states_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace rserve::runtime

#endif  // RSERVE_SRC_RUNTIME_MODEL_MODEL_EXECUTOR_H_
