#include "src/runtime/model/model_executor.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "src/backend/cpu/cpu_model.h"
#include "src/runtime/model/sampler.h"

namespace rserve::runtime {

namespace {

absl::Status NoState(RequestId request) {
  return absl::InternalError(absl::StrCat("request ", request, " is not known to the executor"));
}

// No micro-batch holds more: every token in the pipeline has its place in the KV cache.
int64_t MaxMicroBatchTokens(const OrchestratorConfig& core) {
  return std::min(core.policy.token_budget,
                  int64_t{core.budgets.kv_blocks} * core.budgets.kv_block_tokens);
}

int64_t CountStages(absl::Span<const WorkerInfo> workers) {
  return std::count_if(workers.begin(), workers.end(),
                       [](const WorkerInfo& worker) { return worker.spec.stage >= 0; });
}

}  // namespace

ModelExecutor::ModelExecutor(const LoadedModel& model, absl::Span<const WorkerInfo> workers,
                             const OrchestratorConfig& core, int64_t max_image_pixels,
                             int64_t embedding_cache_bytes, DetailTable* details)
    : model_(model),
      max_image_pixels_(max_image_pixels),
      details_(details),
      pixels_("pixel_bytes", core.budgets.pixel_bytes),
      embeddings_("embedding_bytes", core.budgets.embedding_bytes),
      handover_(model.config.text.hidden_size, MaxMicroBatchTokens(core),
                CountStages(workers) + 1) {
  if (embedding_cache_bytes > 0) {
    cache_ = std::make_unique<EmbeddingCache>(embedding_cache_bytes, model.config.text.hidden_size);
  }
  const cpu::KvGeometry kv{core.budgets.kv_blocks, core.budgets.kv_block_tokens};
  lanes_.reserve(workers.size());
  for (const WorkerInfo& worker : workers) {
    Lane& lane = lanes_.emplace_back();
    lane.pool = std::make_unique<cpu::ThreadPool>(worker.threads, worker.cores);
    if (worker.spec.encoder) lane.encoder = cpu::MakeCpuEncoder(model.weights, lane.pool.get());
    if (worker.spec.stage < 0) continue;
    const cpu::LayerRange layers{worker.first_layer, worker.first_layer + worker.num_layers};
    lane.stage = std::make_unique<StageRunner>(
        cpu::MakeCpuStage(model.weights, layers, kv, lane.pool.get()),
        model.config.text.hidden_size, model.config.text.vocab_size, &handover_);
  }
}

ModelExecutor::~ModelExecutor() = default;

void ModelExecutor::Add(RequestId request, std::unique_ptr<RequestState> state) {
  std::lock_guard<std::mutex> lock(mutex_);
  states_[request] = std::move(state);
}

std::shared_ptr<RequestState> ModelExecutor::Find(RequestId request) const {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto it = states_.find(request);
  return it == states_.end() ? nullptr : it->second;
}

void ModelExecutor::Forget(RequestId request) {
  std::shared_ptr<RequestState> gone;  // its memory goes after the lock
  std::lock_guard<std::mutex> lock(mutex_);
  const auto it = states_.find(request);
  if (it == states_.end()) return;
  gone = std::move(it->second);
  states_.erase(it);
}

// ---- Pictures
// ------------------------------------------------------------------------------------

absl::Status ModelExecutor::Prepare(UnitRef ref) {
  const std::shared_ptr<RequestState> state = Find(ref.request);
  if (state == nullptr) return NoState(ref.request);
  UnitState& unit = state->units[static_cast<size_t>(ref.unit)];
  absl::Status status = PrepareUnit(unit, state->cache_salt);
  unit.source = UnitSource();  // a copy is not needed any more, what was borrowed not looked at
  if (status.ok()) return status;
  unit.patches.reset();
  return absl::Status(status.code(), absl::StrCat("picture ", unit.item, ": ", status.message()));
}

absl::Status ModelExecutor::PrepareUnit(UnitState& unit, const std::string& salt) {
  if (unit.supplied) {
    // Its place among the embeddings was taken before this, as for every unit.
    const int64_t hidden = model_.config.text.hidden_size;
    absl::StatusOr<PooledBuffer> rows = embeddings_.Take(unit.plan.tokens * hidden);
    if (!rows.ok()) return rows.status();
    unit.embeddings = *std::move(rows);
    return ReadRows(
        unit.source, hidden,
        absl::MakeSpan(unit.embeddings.data(), static_cast<size_t>(unit.embeddings.size())));
  }
  if (cache_ == nullptr) return MakePatches(unit);
  const Digest key = EmbeddingKey(unit.source, unit.plan, model_.processor, model_.config, salt);
  if (cache_->Join(key, unit.plan.tokens, &unit.entry, &unit.patches) !=
      EmbeddingCache::Found::kFirst) {
    return absl::OkStatus();
  }
  absl::Cleanup give_up = [this, &unit] { cache_->Fail(unit.entry); };
  if (absl::Status status = MakePatches(unit); !status.ok()) return status;
  cache_->SetPatches(unit.entry, unit.patches);
  std::move(give_up).Cancel();
  return absl::OkStatus();
}

absl::Status ModelExecutor::MakePatches(UnitState& unit) {
  const int64_t floats = unit.plan.grid.patches() * model_.config.vision.patch_dim();
  absl::StatusOr<PooledBuffer> patches = pixels_.Take(floats);
  if (!patches.ok()) return patches.status();
  unit.patches = std::make_shared<PooledBuffer>(*std::move(patches));
  return PreparePatches(unit.source, unit.plan, model_.processor, max_image_pixels_,
                        absl::MakeSpan(unit.patches->data(), static_cast<size_t>(floats)));
}

void ModelExecutor::Encode(EncodeJob job, Done done) {
  absl::Status status = EncodeUnits(job, lanes_[static_cast<size_t>(job.worker)]);
  std::move(done)(std::move(status));
}

absl::Status ModelExecutor::EncodeUnits(const EncodeJob& job, Lane& lane) {
  const absl::Cleanup let_go = [&lane] { lane.held.clear(); };
  std::vector<UnitState*> todo;
  const int64_t hidden = model_.config.text.hidden_size;
  for (const UnitRef& ref : job.units) {
    std::shared_ptr<RequestState> state = Find(ref.request);
    if (state == nullptr) return NoState(ref.request);
    UnitState& unit = state->units[static_cast<size_t>(ref.unit)];
    if (!unit.embeddings) {
      absl::StatusOr<PooledBuffer> buffer = embeddings_.Take(unit.plan.tokens * hidden);
      if (!buffer.ok()) return buffer.status();
      unit.embeddings = *std::move(buffer);
    }
    if (!unit.supplied) todo.push_back(&unit);
    lane.held.push_back(std::move(state));
  }
  while (!todo.empty()) {
    if (absl::Status status = EncodeSome(lane, &todo); !status.ok()) return status;
  }
  for (size_t i = 0; i < job.units.size(); ++i) {
    RequestState& state = *lane.held[i];
    UnitState& unit = state.units[static_cast<size_t>(job.units[i].unit)];
    unit.entry.reset();
    if (state.kept_embeddings.empty()) continue;
    std::copy_n(unit.embeddings.data(), unit.plan.tokens * hidden,
                state.kept_embeddings.data() + unit.first_row * hidden);
  }
  return absl::OkStatus();
}

absl::Status ModelExecutor::EncodeSome(Lane& lane, std::vector<UnitState*>* todo) {
  std::vector<UnitState*> mine, elsewhere;
  lane.units.clear();
  for (UnitState* unit : *todo) {
    using Work = EmbeddingCache::Work;
    const Work work = unit->entry == nullptr ? Work::kEncode : cache_->Begin(unit->entry);
    if (work == Work::kReady) {
      cache_->Copy(unit->entry, absl::MakeSpan(unit->embeddings.data(),
                                               static_cast<size_t>(unit->embeddings.size())));
    } else if (work == Work::kBusy) {
      elsewhere.push_back(unit);  // on another worker, or earlier in this batch
    } else {
      mine.push_back(unit);
      lane.units.push_back({unit->plan.grid, unit->patches->data(), unit->embeddings.data()});
    }
  }
  absl::Cleanup give_up = [this, &mine] {
    for (const UnitState* unit : mine) {
      if (unit->entry != nullptr) cache_->Fail(unit->entry);
    }
  };
  if (!lane.units.empty()) {
    if (absl::Status status = lane.encoder->Encode(lane.units); !status.ok()) return status;
  }
  for (const UnitState* unit : mine) {
    if (unit->entry == nullptr) continue;
    cache_->SetRows(unit->entry, absl::MakeConstSpan(unit->embeddings.data(),
                                                     static_cast<size_t>(unit->embeddings.size())));
  }
  std::move(give_up).Cancel();
  // What is waited for is being encoded by a worker that has published before it waits itself.
  for (const UnitState* unit : elsewhere) cache_->Wait(unit->entry);
  todo->swap(elsewhere);
  return absl::OkStatus();
}

void ModelExecutor::ReleasePixels(UnitRef ref) {
  const std::shared_ptr<RequestState> state = Find(ref.request);
  if (state != nullptr) state->units[static_cast<size_t>(ref.unit)].patches.reset();
}

void ModelExecutor::ReleaseEmbedding(UnitRef ref) {
  const std::shared_ptr<RequestState> state = Find(ref.request);
  if (state != nullptr) state->units[static_cast<size_t>(ref.unit)].embeddings.Reset();
}

// ---- Prefill
// -------------------------------------------------------------------------------------

void ModelExecutor::Forward(StageJob job, Done done) {
  absl::Status status = RunStage(job, lanes_[static_cast<size_t>(job.worker)]);
  std::move(done)(std::move(status));
}

absl::Status ModelExecutor::RunStage(const StageJob& job, Lane& lane) {
  const absl::Cleanup let_go = [&lane] { lane.held.clear(); };
  lane.states.clear();
  for (const StageJobEntry& entry : job.entries) {
    std::shared_ptr<RequestState> state;
    if (!entry.ended) {
      state = Find(entry.chunk.request);
      if (state == nullptr) return NoState(entry.chunk.request);
    }
    lane.states.push_back(state.get());
    lane.held.push_back(std::move(state));
  }
  return lane.stage->Run(
      job, lane.states, [this, &job, &lane](size_t entry, absl::Span<const float> logits) {
        FinishPrompt(job.entries[entry].chunk.request, *lane.states[entry], logits);
      });
}

void ModelExecutor::FinishPrompt(RequestId request, RequestState& state,
                                 absl::Span<const float> logits) {
  absl::StatusOr<FirstToken> first = SampleToken(logits, state.sampling);
  state.first_token_status = first.status();
  if (!first.ok()) return;
  state.first_token = *first;
  std::vector<float> kept;
  if (state.keep_logits) kept.assign(logits.begin(), logits.end());
  details_->SetFirstToken(request, *first, std::move(kept), std::move(state.kept_embeddings));
}

void ModelExecutor::DropMicroBatch(uint64_t micro_batch) { handover_.Drop(micro_batch); }

absl::Status ModelExecutor::TakeFirstToken(RequestId request, FirstToken* out) {
  const std::shared_ptr<RequestState> state = Find(request);
  if (state == nullptr) return NoState(request);
  if (state->first_token_status.ok()) *out = state->first_token;
  return state->first_token_status;
}

}  // namespace rserve::runtime
