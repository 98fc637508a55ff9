// The CPU backend's roles: one copy of the weights for all workers (of each rank its part), threads
// of its own for each worker.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "src/backend/cpu/cpu_collective.h"
#include "src/backend/cpu/cpu_model.h"
#include "src/backend/cpu/thread_pool.h"
#include "src/backend/plan/parallel_stage.h"
#include "src/runtime/model/backend_set.h"
#include "src/runtime/model/placement.h"
#include "src/runtime/model/placement_choice.h"

namespace rserve::runtime {

namespace {

class CpuBackend final : public BackendSet {
 public:
  CpuBackend(const EngineConfig& config, std::vector<std::shared_ptr<const cpu::CpuModel>> ranks)
      : workers_(config.workers),
        kv_{config.core.budgets.kv_blocks, config.core.budgets.kv_block_tokens},
        max_tokens_(MaxMicroBatchTokens(config.core)),
        ranks_(std::move(ranks)) {
    for (const WorkerInfo& worker : workers_) {
      pools_.push_back(std::make_unique<cpu::ThreadPool>(worker.threads, worker.cores));
    }
  }

  int64_t weight_bytes() const override {
    int64_t bytes = 0;
    for (const auto& rank : ranks_) bytes += rank->weight_bytes();
    return bytes;
  }

  absl::StatusOr<std::unique_ptr<backend::EncoderBackend>> MakeEncoder(size_t worker) override {
    return cpu::MakeCpuEncoder(ranks_[0], pools_[worker].get());
  }

  absl::StatusOr<std::unique_ptr<backend::StageBackend>> MakeStage(size_t worker) override {
    const WorkerInfo& info = workers_[worker];
    const cpu::LayerRange layers{info.first_layer, info.first_layer + info.num_layers};
    if (ranks_.size() == 1) {
      return cpu::MakeCpuStage(ranks_[0], layers, kv_, pools_[worker].get());
    }
    // The worker's threads are dealt out to the ranks, unpinned: which of them waits for which is
    // the system's to see.
    const auto ranks = static_cast<int32_t>(ranks_.size());
    std::vector<std::unique_ptr<cpu::CpuCollective>> ends = cpu::MakeCpuCollectives(ranks);
    cpu::CpuCollective* first = ends[0].get();
    std::vector<std::unique_ptr<backend::StageBackend>> stages;
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      pools_.push_back(
          std::make_unique<cpu::ThreadPool>(std::max(1, info.threads / ranks), std::vector<int>{}));
      stages.push_back(
          cpu::MakeCpuStage(ranks_[rank], layers, kv_, pools_.back().get(), std::move(ends[rank])));
    }
    return backend::MakeParallelStage(std::move(stages),
                                      max_tokens_ * ranks_[0]->config().text.hidden_size,
                                      info.spec.depth, [first] { first->Abort(); });
  }

 private:
  const std::vector<WorkerInfo> workers_;
  const cpu::KvGeometry kv_;
  const int64_t max_tokens_;
  const std::vector<std::shared_ptr<const cpu::CpuModel>> ranks_;
  std::vector<std::unique_ptr<cpu::ThreadPool>> pools_;  // by worker, then those of ranks
};

}  // namespace

absl::StatusOr<std::unique_ptr<BackendSet>> LoadCpuBackend(const model::ModelFolder& folder,
                                                           const ModelEngineOptions& options,
                                                           EngineConfig* config) {
  const std::vector<int> usable = UsableCores();
  cpu::ThreadPool pool(static_cast<int32_t>(usable.size()), {});
  std::vector<std::shared_ptr<const cpu::CpuModel>> ranks;
  for (int32_t rank = 0; rank < config->tensor_parallel; ++rank) {
    cpu::LoadOptions load;
    load.pool = &pool;
    load.rank = rank;
    load.ranks = config->tensor_parallel;
    load.weights =
        config->weights == Weights::kInt8 ? cpu::WeightFormat::kInt8 : cpu::WeightFormat::kStored;
    if (rank > 0) {
      load.shared = ranks[0];
    } else {
      load.progress = options.load_progress;
    }
    auto model = cpu::CpuModel::Load(folder.config, *folder.checkpoint, load);
    if (!model.ok()) return model.status();
    ranks.push_back(*std::move(model));
  }
  if (config->measure_encoders) {
    std::string reason;
    auto encoders = MeasureEncoders(options, ranks[0], usable, &reason);
    if (!encoders.ok()) return encoders.status();
    ModelEngineOptions placed = options;
    placed.encoders = *encoders;
    auto made = MakeEngineConfig(placed, folder.config, folder.processor);
    if (!made.ok()) return made.status();
    *config = *std::move(made);
    config->placement_reason = std::move(reason);
  }
  return std::make_unique<CpuBackend>(*config, std::move(ranks));
}

}  // namespace rserve::runtime
