// The CUDA backend's roles, from a library that is opened at run time: each worker's weights on its
// device, or its ranks' parts on theirs.

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "src/backend/cuda/loader/cuda_library.h"
#include "src/backend/plan/parallel_stage.h"
#include "src/runtime/model/backend_set.h"

namespace rserve::runtime {

namespace {

constexpr char kLibraryName[] = "librserve_cuda.so";
constexpr int32_t kDefaultEncoderPercent = 25;
constexpr int64_t kDefaultGraphRows = 1024;

// Where the library is: beside the object that this code is in, in a program's ../lib, or left to
// the system.
std::string FindLibrary() {
  Dl_info self = {};
  if (dladdr(reinterpret_cast<const void*>(&FindLibrary), &self) != 0 &&
      self.dli_fname != nullptr) {
    const std::string file = self.dli_fname;
    const size_t slash = file.rfind('/');
    const std::string folder = slash == std::string::npos ? "." : file.substr(0, slash);
    for (const char* from : {"/", "/../lib/"}) {
      std::string path = absl::StrCat(folder, from, kLibraryName);
      if (access(path.c_str(), R_OK) == 0) return path;
    }
  }
  return kLibraryName;
}

class CudaBackend final : public BackendSet {
 public:
  CudaBackend(const ModelEngineOptions& options, const EngineConfig& config,
              const model::ModelConfig& model)
      : options_(options),
        workers_(config.workers),
        kv_{config.core.budgets.kv_blocks, config.core.budgets.kv_block_tokens},
        hidden_(model.text.hidden_size),
        embedding_bytes_(config.core.budgets.embedding_bytes) {
    const Budgets& budgets = config.core.budgets;
    encoder_limits_.max_patches = budgets.encoder_batch_tokens * model.vision.merge_unit();
    stage_limits_.max_tokens = MaxMicroBatchTokens(config.core);
    // An entry has a token and a block at least.
    stage_limits_.max_entries = std::min<int64_t>(stage_limits_.max_tokens, kv_.num_blocks);
    // A micro-batch has one of these places from its first work on the stage before to the last on
    // the stage after.
    int64_t depths = 0;
    for (const WorkerInfo& worker : workers_)
      depths += worker.spec.stage < 0 ? 0 : worker.spec.depth;
    hand_over_limits_ = {
        hidden_, stage_limits_.max_tokens,
        static_cast<int32_t>(std::max<int64_t>(depths, config.core.max_micro_batches) + 1)};
    options_.load_progress = nullptr;
  }

  absl::Status Load(const model::ModelFolder& folder, const LoadProgress& progress) {
    library_ = options_.cuda_library.empty() ? cuda::BuiltInCudaLibrary() : nullptr;
    if (library_ == nullptr) {
      absl::StatusOr<const cuda::LibraryTable*> library = cuda::OpenCudaLibrary(
          options_.cuda_library.empty() ? FindLibrary() : options_.cuda_library);
      if (!library.ok()) return library.status();
      library_ = *library;
    }
    const int64_t total = folder.checkpoint->total_bytes();
    for (const WorkerInfo& worker : workers_) {
      for (const int32_t number : worker.devices) {
        if (absl::Status s = OpenDevice(number); !s.ok()) return s;
      }
    }
    if (absl::Status s = MakeRows(); !s.ok()) return s;
    stages_.resize(workers_.size());
    for (size_t i = 0; i < workers_.size(); ++i) {
      if (absl::Status s = LoadWorker(folder, workers_[i], &stages_[i]); !s.ok()) return s;
      if (progress) {
        progress(total * static_cast<int64_t>(i + 1) / static_cast<int64_t>(workers_.size()),
                 total);
      }
    }
    return absl::OkStatus();
  }

  int64_t weight_bytes() const override { return weight_bytes_; }
  backend::RowStore* embedding_rows() const override { return rows_.get(); }

  absl::StatusOr<std::unique_ptr<backend::EncoderBackend>> MakeEncoder(size_t worker) override {
    const WorkerInfo& info = workers_[worker];
    const int32_t number = info.devices[0];
    return library_->make_encoder(towers_.at(number), encoder_limits_,
                                  RoleOf(number, info.spec.depth, /*encoder=*/true));
  }

  absl::StatusOr<std::unique_ptr<backend::StageBackend>> MakeStage(size_t worker) override {
    const WorkerInfo& info = workers_[worker];
    const cuda::LayerRange layers{info.first_layer, info.first_layer + info.num_layers};
    const size_t ranks = info.devices.size();
    std::vector<cuda::StageLinks> links(ranks);
    if (absl::Status s = TieTogether(info.spec.stage, &links); !s.ok()) return s;
    const bool on_devices = links[0].after != nullptr;
    cuda::Collective* first = nullptr;
    if (ranks > 1) {
      absl::StatusOr<std::vector<std::unique_ptr<cuda::Collective>>> ends =
          library_->make_collectives({info.devices.begin(), info.devices.end()});
      if (!ends.ok()) return ends.status();
      first = (*ends)[0].get();
      for (size_t rank = 0; rank < ranks; ++rank) links[rank].collective = std::move((*ends)[rank]);
    }
    std::vector<std::unique_ptr<backend::StageBackend>> stages;
    for (size_t rank = 0; rank < ranks; ++rank) {
      auto stage = library_->make_stage(stages_[worker][rank], layers, kv_, stage_limits_,
                                        RoleOf(info.devices[rank], info.spec.depth, false),
                                        std::move(links[rank]));
      if (!stage.ok()) return stage.status();
      stages.push_back(*std::move(stage));
    }
    if (ranks == 1) return std::move(stages[0]);
    return backend::MakeParallelStage(std::move(stages),
                                      on_devices ? 0 : stage_limits_.max_tokens * hidden_,
                                      info.spec.depth, [first] { first->Abort(); });
  }

 private:
  using Model = std::shared_ptr<const cuda::CudaModel>;

  absl::Status OpenDevice(int32_t number) {
    if (devices_.contains(number)) return absl::OkStatus();
    absl::StatusOr<std::unique_ptr<cuda::Device>> opened = library_->open_gpu(number);
    if (!opened.ok()) return opened.status();
    cuda::Device* device = opened->get();
    devices_[number] = *std::move(opened);
    if (options_.device_sharing != DeviceSharing::kTurns) return absl::OkStatus();
    absl::StatusOr<std::shared_ptr<cuda::Turns>> turns = cuda::Turns::Make(device);
    if (!turns.ok()) return turns.status();
    turns_[number] = *std::move(turns);
    return absl::OkStatus();
  }

  // As many rows as the budget of embeddings counts, on the devices of the first stage.
  absl::Status MakeRows() {
    if (!options_.device_embeddings) return absl::OkStatus();
    std::vector<cuda::Device*> devices;
    for (const WorkerInfo& worker : workers_) {
      if (worker.spec.stage != 0) continue;
      for (const int32_t number : worker.devices) devices.push_back(devices_.at(number).get());
    }
    const int64_t rows = embedding_bytes_ / (hidden_ * int64_t{sizeof(float)});
    auto store = library_->make_embedding_store(devices, rows, hidden_);
    if (!store.ok()) return store.status();
    embeddings_ = *std::move(store);
    rows_ = std::make_unique<backend::RowStore>(rows);
    return absl::OkStatus();
  }

  // The hand-overs of a stage's ranks, from the stage before and to the next one.
  absl::Status TieTogether(int32_t stage, std::vector<cuda::StageLinks>* ranks) {
    if (options_.stage_handover == StageHandover::kHost) return absl::OkStatus();
    for (size_t rank = 0; rank < ranks->size(); ++rank) {
      cuda::StageLinks& links = (*ranks)[rank];
      if (absl::Status s = HandOverAfter(stage - 1, rank, &links.before); !s.ok()) return s;
      if (absl::Status s = HandOverAfter(stage, rank, &links.after); !s.ok()) return s;
    }
    return absl::OkStatus();
  }

  // From the stage's rank to the same rank of the next one; null when one of the two is not there.
  absl::Status HandOverAfter(int32_t stage, size_t rank, std::shared_ptr<cuda::HandOver>* out) {
    cuda::Device* ends[2] = {};
    for (const WorkerInfo& worker : workers_) {
      const int32_t side = worker.spec.stage - stage;
      if (worker.spec.stage < 0 || side < 0 || side > 1) continue;
      ends[side] = devices_.at(worker.devices[rank]).get();
    }
    if (ends[0] == nullptr || ends[1] == nullptr) return absl::OkStatus();
    std::shared_ptr<cuda::HandOver>& made = hand_overs_[{stage, rank}];
    if (made == nullptr) {
      auto hand_over = library_->make_hand_over(options_.stage_handover == StageHandover::kNccl
                                                    ? cuda::LinkKind::kNccl
                                                    : cuda::LinkKind::kPeer,
                                                ends[0], ends[1], hand_over_limits_);
      if (!hand_over.ok()) return hand_over.status();
      made = *std::move(hand_over);
    }
    *out = made;
    return absl::OkStatus();
  }

  absl::Status LoadWorker(const model::ModelFolder& folder, const WorkerInfo& worker,
                          std::vector<Model>* stages) {
    const auto load = [&](int32_t number, const cuda::LoadOptions& part, Model* to) {
      auto model =
          library_->load(folder.config, *folder.checkpoint, part, devices_.at(number).get());
      if (!model.ok()) return model.status();
      weight_bytes_ += (*model)->weight_bytes();
      *to = *std::move(model);
      return absl::OkStatus();
    };
    // A device's encoders share one vision tower.
    if (worker.spec.encoder && !towers_.contains(worker.devices[0])) {
      cuda::LoadOptions part;
      absl::Status status = load(worker.devices[0], part, &towers_[worker.devices[0]]);
      if (!status.ok()) return status;
    }
    if (worker.spec.stage < 0) return absl::OkStatus();
    cuda::LoadOptions part;
    part.vision = false;
    part.layers = {worker.first_layer, worker.first_layer + worker.num_layers};
    part.ranks = static_cast<int32_t>(worker.devices.size());
    stages->resize(worker.devices.size());
    for (part.rank = 0; part.rank < part.ranks; ++part.rank) {
      const auto rank = static_cast<size_t>(part.rank);
      absl::Status status = load(worker.devices[rank], part, &(*stages)[rank]);
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

  // Whether encoders and stages share the device.
  bool Shared(int32_t number) const {
    bool encoder = false, stage = false;
    for (const WorkerInfo& worker : workers_) {
      const auto& devices = worker.devices;
      if (std::find(devices.begin(), devices.end(), number) == devices.end()) continue;
      encoder = encoder || (worker.spec.encoder && worker.spec.stage < 0);
      stage = stage || worker.spec.stage >= 0;
    }
    return encoder && stage;
  }

  cuda::RoleOptions RoleOf(int32_t number, int32_t depth, bool encoder) const {
    cuda::RoleOptions role;
    role.deterministic = options_.deterministic;
    role.fused_attention = encoder && options_.cudnn_attention;
    role.embeddings = embeddings_;
    role.depth = depth;
    role.graph_rows =
        options_.graph_rows == 0 ? kDefaultGraphRows : std::max<int64_t>(options_.graph_rows, 0);
    if (!Shared(number)) return role;
    if (options_.device_sharing == DeviceSharing::kTurns) role.turns = turns_.at(number);
    if (options_.device_sharing == DeviceSharing::kParts) {
      role.part.percent =
          options_.encoder_percent == 0 ? kDefaultEncoderPercent : options_.encoder_percent;
      role.part.rest = !encoder;
    }
    return role;
  }

  ModelEngineOptions options_;
  const std::vector<WorkerInfo> workers_;
  const backend::KvGeometry kv_;
  const int64_t hidden_;
  const int64_t embedding_bytes_;  // the budget, which counts rows of f32
  cuda::EncoderLimits encoder_limits_;
  cuda::StageLimits stage_limits_;
  cuda::HandOverLimits hand_over_limits_;
  const cuda::LibraryTable* library_ = nullptr;
  int64_t weight_bytes_ = 0;
  std::map<int32_t, std::unique_ptr<cuda::Device>> devices_;  // by number; before what is on them
  std::map<int32_t, std::shared_ptr<cuda::Turns>> turns_;
  std::shared_ptr<cuda::EmbeddingStore> embeddings_;  // null: through host memory
  std::unique_ptr<backend::RowStore> rows_;           // whose its rows are
  std::map<int32_t, Model> towers_;                   // by device
  std::vector<std::vector<Model>> stages_;            // by worker and rank
  // By the stage before and rank.
  std::map<std::pair<int32_t, size_t>, std::shared_ptr<cuda::HandOver>> hand_overs_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<BackendSet>> LoadCudaBackend(const model::ModelFolder& folder,
                                                            const ModelEngineOptions& options,
                                                            const EngineConfig& config) {
  auto backend = std::make_unique<CudaBackend>(options, config, folder.config);
  if (absl::Status s = backend->Load(folder, options.load_progress); !s.ok()) return s;
  return backend;
}

}  // namespace rserve::runtime
