#include "rserve/cc/model_engine.h"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "rserve/cc/kv_block_pool.h"
#include "src/model/model_folder.h"
#include "src/runtime/model/chat.h"
#include "src/runtime/model/detail_table.h"
#include "src/runtime/model/engine_config.h"
#include "src/runtime/model/kv_keys.h"
#include "src/runtime/model/loaded_model.h"
#include "src/runtime/model/model_executor.h"
#include "src/runtime/model/placement.h"
#include "src/runtime/model/placement_choice.h"
#include "src/runtime/model/request_planner.h"
#include "src/runtime/model/request_state.h"

namespace rserve {

using runtime::DetailTable;
using runtime::EngineConfig;
using runtime::LoadedModel;
using runtime::ModelExecutor;
using runtime::PlannedRequest;
using runtime::RequestPlanner;
using runtime::RequestState;
using runtime::UnitState;

namespace {

constexpr int32_t kLogInfo = 1;
constexpr int32_t kLogWarning = 2;

constexpr struct {
  Backend backend;
  std::string_view name;
} kBackends[] = {{Backend::kCpu, "cpu"}, {Backend::kCuda, "cuda"}};

constexpr struct {
  DeviceSharing sharing;
  std::string_view name;
} kSharings[] = {{DeviceSharing::kStreams, "streams"},
                 {DeviceSharing::kTurns, "turns"},
                 {DeviceSharing::kParts, "parts"}};
constexpr struct {
  StageHandover handover;
  std::string_view name;
} kHandovers[] = {
    {StageHandover::kPeer, "peer"}, {StageHandover::kNccl, "nccl"}, {StageHandover::kHost, "host"}};

std::unique_ptr<RequestState> MakeState(const ModelRequest& request, PlannedRequest planned,
                                        const LoadedModel& model) {
  auto state = std::make_unique<RequestState>();
  int64_t rows = 0;
  state->units.reserve(planned.core.units.size());
  for (size_t i = 0; i < planned.prompt.items.size(); ++i) {
    const model::PlannedItem& item = planned.prompt.items[i];
    std::vector<runtime::UnitSource> sources =
        runtime::MakeSources(request.parts[static_cast<size_t>(item.part_index)], item,
                             model.processor.temporal_patch_size, planned.images[i].video.get());
    for (runtime::UnitSource& source : sources) {
      UnitState& unit = state->units.emplace_back();
      unit.plan = item.plan;
      unit.plan.grid.t = 1;
      unit.plan.tokens = item.plan.tokens / item.plan.grid.t;
      unit.item = static_cast<int32_t>(i);
      unit.supplied = source.kind == runtime::SourceKind::kRows;
      unit.source = std::move(source);
      if (unit.source.kind == runtime::SourceKind::kFile) {
        unit.source.width = planned.images[i].width;
        unit.source.height = planned.images[i].height;
      }
      unit.first_row = rows;
      rows += unit.plan.tokens;
    }
  }
  state->token_ids = std::move(planned.prompt.token_ids);
  state->positions = std::move(planned.prompt.positions);
  state->sampling = request.sampling;
  state->cache_salt = request.cache_salt;
  state->keep_logits = request.keep_logits;
  if (request.keep_embeddings) {
    state->kept_embeddings.resize(static_cast<size_t>(rows * model.config.text.hidden_size));
  }
  return state;
}

// "TP2xPP2+E1": ranks of a stage, stages, encoders.
std::string Topology(const EngineConfig& config) {
  std::string name = TopologyName(config.core.workers);
  if (config.tensor_parallel == 1) return name;
  const std::string ranks = absl::StrCat("TP", config.tensor_parallel);
  if (name.compare(0, 3, "TP1") == 0) return ranks + name.substr(3);
  return absl::StrCat(ranks, "x", name);
}

ModelInfo MakeInfo(const LoadedModel& model, const EngineConfig& config) {
  ModelInfo info;
  const model::TextConfig& text = model.config.text;
  const model::VisionConfig& vision = model.config.vision;
  info.model_type = model.config.model_type;
  info.vocab_size = text.vocab_size;
  info.hidden_size = text.hidden_size;
  info.num_layers = text.num_layers;
  info.num_heads = text.num_heads;
  info.num_kv_heads = text.num_kv_heads;
  info.head_dim = text.head_dim;
  info.max_position_embeddings = text.max_position_embeddings;
  info.vision_depth = vision.depth;
  info.vision_hidden_size = vision.hidden_size;
  info.vision_heads = vision.num_heads;
  info.patch_size = vision.patch_size;
  info.merge_size = vision.spatial_merge_size;
  info.min_pixels = model.processor.min_pixels;
  info.max_pixels = model.processor.max_pixels;
  info.weight_bytes = model.backend->weight_bytes();
  info.kv_bytes_per_token = config.kv_bytes_per_token;
  info.load_seconds = static_cast<double>(model.load_ns) * 1e-9;
  info.topology = Topology(config);
  info.workers = config.workers;
  info.core = config.core;
  return info;
}

}  // namespace

std::string_view BackendName(Backend backend) {
  for (const auto& known : kBackends) {
    if (known.backend == backend) return known.name;
  }
  return "unknown";
}

absl::StatusOr<Backend> ParseBackend(std::string_view name) {
  for (const auto& known : kBackends) {
    if (known.name == name) return known.backend;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("backend is \"", std::string(name), "\"; known are cpu, cuda"));
}

std::string_view DeviceSharingName(DeviceSharing sharing) {
  for (const auto& known : kSharings) {
    if (known.sharing == sharing) return known.name;
  }
  return "unknown";
}

absl::StatusOr<DeviceSharing> ParseDeviceSharing(std::string_view name) {
  for (const auto& known : kSharings) {
    if (known.name == name) return known.sharing;
  }
  return absl::InvalidArgumentError(absl::StrCat("device_sharing is \"", std::string(name),
                                                 "\"; known are streams, turns, parts"));
}

std::string_view StageHandoverName(StageHandover handover) {
  for (const auto& known : kHandovers) {
    if (known.handover == handover) return known.name;
  }
  return "unknown";
}

absl::StatusOr<StageHandover> ParseStageHandover(std::string_view name) {
  for (const auto& known : kHandovers) {
    if (known.name == name) return known.handover;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("stage_handover is \"", std::string(name), "\"; known are peer, nccl, host"));
}

// The executor points into `model` and `details`, so the engine, which owns it, goes first.
class ModelEngine::Impl {
 public:
  Impl(LoadedModel loaded, EngineConfig made)
      : model(std::move(loaded)),
        config(std::move(made)),
        planner(model, config.limits),
        info(MakeInfo(model, config)) {}

  // Why this engine could never run the request, or OK.
  absl::Status CheckFits(const PlannedRequest& planned) const {
    absl::Status status = planner.CheckFits(planned);
    if (!status.ok()) return status;
    RequestPlan plan = planned.core;
    plan.id = 1;  // any: the answer does not depend on it
    return core->CheckFits(plan);
  }

  // What the request's detail will hold of its results.
  int64_t KeptBytes(const ModelRequest& request, const RequestPlan& plan) const {
    int64_t values = request.keep_logits ? int64_t{info.vocab_size} : 0;
    if (request.keep_embeddings) {
      for (const UnitPlan& unit : plan.units) values += unit.tokens * info.hidden_size;
    }
    return values * int64_t{sizeof(float)};
  }

  void AddKvKeys(RequestState& state, RequestPlan* plan) const {
    for (UnitState& unit : state.units) {
      unit.key = runtime::EmbeddingKey(unit.source, unit.plan, model.processor, model.config,
                                       state.cache_salt);
    }
    plan->kv_block_keys =
        runtime::KvBlockKeys(state, *plan, model.config, config.core.budgets.kv_block_tokens);
  }

  int64_t KvBlocks(const PlannedRequest& planned) const {
    return KvBlocksFor(planned.core.prompt_tokens + planned.core.max_new_tokens,
                       config.core.budgets.kv_block_tokens);
  }

  const LoadedModel model;
  const EngineConfig config;
  const RequestPlanner planner;
  const ModelInfo info;
  DetailTable details;
  std::unique_ptr<const Orchestrator> core;  // never stepped: answers CheckFits
  std::unique_ptr<Engine> engine;
  ModelExecutor* executor = nullptr;  // the engine's
};

absl::StatusOr<std::unique_ptr<ModelEngine>> ModelEngine::Create(ModelEngineOptions options) {
  if (absl::Status status = runtime::CheckOptions(options); !status.ok()) return status;
  auto folder = model::OpenModelFolder(options.model_path);
  if (!folder.ok()) return folder.status();
  const std::vector<int> usable = runtime::UsableCores();
  const std::optional<int32_t> encoders = runtime::EncodersWithoutMeasuring(options, usable);
  // What is measured needs the weights; until then an option is checked with an encoder of its own.
  options.encoders = encoders.value_or(1);
  auto config = runtime::MakeEngineConfig(options, folder->config, folder->processor);
  if (!config.ok()) return config.status();
  config->measure_encoders = !encoders.has_value();
  auto core = Orchestrator::Create(config->core);  // before the weights: it finds bad options
  if (!core.ok()) return core.status();
  auto model = runtime::LoadModel(*std::move(folder), options, &*config);
  if (!model.ok()) return model.status();
  core = Orchestrator::Create(config->core);
  if (!core.ok()) return core.status();
  if (options.log && !config->placement_reason.empty()) {
    options.log(kLogInfo, config->placement_reason);
  }
  auto impl = std::make_unique<Impl>(*std::move(model), *std::move(config));
  impl->core = *std::move(core);
  auto roles = ModelExecutor::MakeRoles(*impl->model.backend, impl->config.workers);
  if (!roles.ok()) return roles.status();
  auto executor = std::make_unique<ModelExecutor>(impl->model, *std::move(roles), impl->config.core,
                                                  impl->config.limits.max_image_pixels,
                                                  options.embedding_cache_bytes, &impl->details);
  impl->executor = executor.get();
  EngineOptions engine_options;
  engine_options.core = impl->config.core;
  for (const WorkerInfo& worker : impl->config.workers) {
    // The worker's thread is the first of its pool; the pool pins the others.
    std::vector<int>& cores = engine_options.worker_cores.emplace_back();
    if (!worker.cores.empty()) cores.push_back(worker.cores.front());
  }
  engine_options.trace = std::move(options.trace);
  if (options.log) {
    const ModelInfo& info = impl->info;
    options.log(kLogInfo,
                absl::StrCat("loaded ", options.model_path, ": ", info.weight_bytes,
                             " bytes of weights in ", info.load_seconds, " s, ", info.topology,
                             ", ", impl->config.limits.kv_tokens, " KV tokens"));
  }
  if (options.log && !impl->model.chat.status.ok()) {
    options.log(kLogWarning,
                absl::StrCat("chats are refused: ", impl->model.chat.status.message()));
  }
  engine_options.log = std::move(options.log);
  auto engine = Engine::Create(std::move(engine_options), std::move(executor));
  if (!engine.ok()) return engine.status();
  impl->engine = *std::move(engine);
  return std::unique_ptr<ModelEngine>(new ModelEngine(std::move(impl)));
}

ModelEngine::ModelEngine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ModelEngine::~ModelEngine() = default;

absl::StatusOr<RequestId> ModelEngine::Submit(const ModelRequest& request) {
  if (impl_->details.ended() >= impl_->config.max_unacknowledged) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the details of ", impl_->config.max_unacknowledged,
                     " ended requests are not acknowledged (option max_unacknowledged)"));
  }
  absl::StatusOr<PlannedRequest> planned = impl_->planner.Plan(request);
  if (!planned.ok()) return planned.status();
  if (absl::Status status = impl_->CheckFits(*planned); !status.ok()) return status;

  const RequestId id = impl_->engine->NewRequestId();
  RequestPlan plan = planned->core;
  plan.id = id;
  plan.input_bytes += impl_->KeptBytes(request, plan);
  RequestDetail detail;
  detail.request = id;
  detail.user_data = request.user_data;
  detail.token_ids = planned->prompt.token_ids;
  detail.items = RequestPlanner::Items(*planned);
  detail.kv_blocks = impl_->KvBlocks(*planned);
  // Also when memory runs out on the way.
  absl::Cleanup undo = [&] {
    impl_->executor->Forget(id);
    impl_->details.Remove(id);
  };
  impl_->details.Add(std::move(detail), request.discard_detail);
  std::unique_ptr<RequestState> state = MakeState(request, *std::move(planned), impl_->model);
  // Embeddings that are kept must be made.
  if (impl_->config.kv_reuse && !request.keep_embeddings) impl_->AddKvKeys(*state, &plan);
  impl_->executor->Add(id, std::move(state));
  absl::Status status = impl_->engine->Submit(std::move(plan), request.user_data);
  if (!status.ok()) return status;
  std::move(undo).Cancel();
  return id;
}

absl::StatusOr<std::vector<RequestPart>> ModelEngine::RenderChat(std::vector<ChatMessage> messages,
                                                                 bool number_images) const {
  const LoadedModel& model = impl_->model;
  return runtime::RenderParts(
      std::move(messages), number_images,
      [&model](absl::Span<const model::ChatMessage> chat, const model::ChatOptions& options) {
        return model.chat.Render(chat, options, *model.tokenizer);
      });
}

absl::StatusOr<RequestPreview> ModelEngine::PlanRequest(const ModelRequest& request) const {
  absl::StatusOr<PlannedRequest> planned = impl_->planner.Plan(request);
  if (!planned.ok()) return planned.status();
  RequestPreview preview;
  preview.fits = impl_->CheckFits(*planned);
  preview.items = RequestPlanner::Items(*planned);
  preview.kv_blocks = impl_->KvBlocks(*planned);
  for (const UnitPlan& unit : planned->core.units) {
    preview.embedding_bytes += unit.embedding_bytes;
    preview.pixel_bytes += unit.pixel_bytes;
  }
  preview.input_bytes = planned->core.input_bytes;
  preview.mrope_delta = planned->prompt.mrope_delta;
  preview.token_ids = std::move(planned->prompt.token_ids);
  preview.positions = std::move(planned->prompt.positions);
  return preview;
}

int64_t ModelEngine::Poll(int64_t capacity, std::vector<Event>* events) {
  const size_t before = events->size();
  const int64_t count = impl_->engine->Poll(capacity, events);
  for (size_t i = before; i < events->size(); ++i) impl_->details.Record((*events)[i]);
  return count;
}

absl::Status ModelEngine::Cancel(RequestId request) { return impl_->engine->Cancel(request); }
void ModelEngine::Drain() { impl_->engine->Drain(); }
void ModelEngine::Abort() { impl_->engine->Abort(); }
int ModelEngine::wait_fd() const { return impl_->engine->wait_fd(); }
TimeNs ModelEngine::next_deadline_ns() const { return impl_->engine->next_deadline_ns(); }
OrchestratorStats ModelEngine::stats() const { return impl_->engine->stats(); }
EmbeddingCacheStats ModelEngine::embedding_cache_stats() const {
  return impl_->executor->cache_stats();
}
DeviceEmbeddingStats ModelEngine::device_embedding_stats() const {
  const backend::RowStore* rows = impl_->model.backend->embedding_rows();
  if (rows == nullptr) return {};
  return {rows->taken(), rows->peak(), rows->capacity()};
}
bool ModelEngine::idle() const { return impl_->engine->idle(); }

absl::StatusOr<std::shared_ptr<const RequestDetail>> ModelEngine::Detail(RequestId request) const {
  return impl_->details.Get(request);
}
absl::Status ModelEngine::Acknowledge(RequestId request) {
  return impl_->details.Acknowledge(request);
}
const ModelInfo& ModelEngine::info() const { return impl_->info; }
std::string ModelEngine::Decode(absl::Span<const int32_t> ids) const {
  return impl_->model.tokenizer->Decode(ids);
}

}  // namespace rserve
