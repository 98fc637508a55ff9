#include "src/runtime/model/model_executor.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "src/backend/plan/geometry.h"
#include "src/runtime/exception_guard.h"
#include "src/runtime/model/sampler.h"

namespace rserve::runtime {

namespace {

absl::Status NoState(RequestId request) {
  return absl::InternalError(absl::StrCat("request ", request, " is not known to the executor"));
}

// Hidden states in memory at once: a micro-batch has one buffer, two while a stage between others
// reads the one and writes the other; stage 0 and the last have only one of them.
int64_t MaxHandovers(const OrchestratorConfig& core) {
  int64_t stages = 0, depths = 0;
  for (const WorkerSpec& worker : core.workers) {
    if (worker.stage < 0) continue;
    ++stages;
    depths += worker.depth;
  }
  return std::max<int64_t>(depths, core.max_micro_batches) + stages;
}

}  // namespace

absl::StatusOr<std::vector<ModelExecutor::Roles>> ModelExecutor::MakeRoles(
    BackendSet& backend, absl::Span<const WorkerInfo> workers) {
  std::vector<Roles> roles(workers.size());
  for (size_t i = 0; i < workers.size(); ++i) {
    if (workers[i].spec.encoder) {
      auto encoder = backend.MakeEncoder(i);
      if (!encoder.ok()) return encoder.status();
      roles[i].encoder = *std::move(encoder);
    }
    if (workers[i].spec.stage >= 0) {
      auto stage = backend.MakeStage(i);
      if (!stage.ok()) return stage.status();
      roles[i].stage = *std::move(stage);
    }
  }
  return roles;
}

ModelExecutor::ModelExecutor(const LoadedModel& model, std::vector<Roles> roles,
                             const OrchestratorConfig& core, int64_t max_image_pixels,
                             int64_t embedding_cache_bytes, DetailTable* details)
    : model_(model),
      max_image_pixels_(max_image_pixels),
      details_(details),
      pixels_("pixel_bytes", core.budgets.pixel_bytes),
      embeddings_("embedding_bytes", core.budgets.embedding_bytes),
      rows_(model.backend->embedding_rows()),
      handover_(model.config.text.hidden_size, MaxMicroBatchTokens(core), MaxHandovers(core)) {
  if (embedding_cache_bytes > 0) {
    cache_ = std::make_unique<EmbeddingCache>(embedding_cache_bytes, model.config.text.hidden_size);
  }
  lanes_.reserve(roles.size());
  for (Roles& role : roles) {
    Lane& lane = lanes_.emplace_back();
    lane.encoder = std::move(role.encoder);
    if (role.stage == nullptr) continue;
    lane.stage = std::make_unique<StageRunner>(
        std::move(role.stage), model.config.text.hidden_size, model.config.text.vocab_size,
        backend::kMaxTableShare * core.budgets.kv_blocks, &handover_);
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
  const Digest key = unit.key.has_value() ? *unit.key
                                          : EmbeddingKey(unit.source, unit.plan, model_.processor,
                                                         model_.config, salt);
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
  Lane& lane = lanes_[static_cast<size_t>(job.worker)];
  auto batch = std::make_unique<Batch>(cache_.get());
  batch->job = std::move(job);
  std::vector<UnitState*> todo;
  if (absl::Status status = TakeUnits(batch.get(), &todo); !status.ok()) {
    std::move(done)(std::move(status));
    return;
  }
  ShareOut(todo, batch.get());
  if (batch->mine.empty() || !batch->elsewhere.empty()) {
    absl::Status status = EncodeAndWait(*batch, lane);
    if (status.ok()) KeepEmbeddings(*batch);
    batch.reset();  // before the requests may end
    std::move(done)(std::move(status));
    return;
  }
  const std::vector<backend::EncodeUnit>& units = batch->units;
  lane.encoder->Start(
      units, [this, batch = std::move(batch), done = std::move(done)](absl::Status status) mutable {
        absl::Status result = std::move(status);
        const absl::Status guarded = RunGuarded("an encode", [&] {
          result = Publish(*batch, std::move(result));
          if (result.ok()) KeepEmbeddings(*batch);
        });
        batch.reset();
        std::move(done)(guarded.ok() ? std::move(result) : guarded);
      });
}

absl::Status ModelExecutor::TakeUnits(Batch* batch, std::vector<UnitState*>* todo) {
  const int64_t hidden = model_.config.text.hidden_size;
  for (const UnitRef& ref : batch->job.units) {
    std::shared_ptr<RequestState> state = Find(ref.request);
    if (state == nullptr) return NoState(ref.request);
    UnitState& unit = state->units[static_cast<size_t>(ref.unit)];
    const bool host = unit.entry != nullptr || !state->kept_embeddings.empty();
    if (!unit.supplied && !host) TakeRows(&unit);
    if (!unit.embeddings && !unit.stored) {
      absl::StatusOr<PooledBuffer> buffer = embeddings_.Take(unit.plan.tokens * hidden);
      if (!buffer.ok()) return buffer.status();
      unit.embeddings = *std::move(buffer);
    }
    if (!unit.supplied) todo->push_back(&unit);
    batch->held.push_back(std::move(state));
  }
  return absl::OkStatus();
}

void ModelExecutor::TakeRows(UnitState* unit) {
  if (rows_ != nullptr && !unit->stored) unit->stored = rows_->Take(unit->plan.tokens);
}

void ModelExecutor::ShareOut(const std::vector<UnitState*>& todo, Batch* batch) {
  batch->mine.clear();
  batch->elsewhere.clear();
  batch->units.clear();
  for (UnitState* unit : todo) {
    using Work = EmbeddingCache::Work;
    const Work work = unit->entry == nullptr ? Work::kEncode : cache_->Begin(unit->entry);
    if (work == Work::kReady) {
      cache_->Copy(unit->entry, absl::MakeSpan(unit->embeddings.data(),
                                               static_cast<size_t>(unit->embeddings.size())));
      unit->stored.Reset();  // of an earlier attempt
    } else if (work == Work::kBusy) {
      batch->elsewhere.push_back(unit);
    } else {
      TakeRows(unit);
      batch->mine.push_back(unit);
      batch->units.push_back({unit->plan.grid, unit->patches->data(), unit->embeddings.data(),
                              unit->stored ? &unit->stored : nullptr});
    }
  }
}

void ModelExecutor::Batch::GiveUp() {
  for (const UnitState* unit : mine) {
    if (unit->entry != nullptr) cache->Fail(unit->entry);
  }
  mine.clear();
}

absl::Status ModelExecutor::Publish(Batch& batch, absl::Status status) {
  if (!status.ok()) {
    batch.GiveUp();
    return status;
  }
  for (const UnitState* unit : batch.mine) {
    if (unit->entry == nullptr) continue;
    cache_->SetRows(unit->entry, absl::MakeConstSpan(unit->embeddings.data(),
                                                     static_cast<size_t>(unit->embeddings.size())));
  }
  batch.mine.clear();
  return absl::OkStatus();
}

// What is waited for is being encoded by a worker that waits for nothing: batches that wait do not
// start before all that they wait for has been, and what is started ends without this thread.
absl::Status ModelExecutor::EncodeAndWait(Batch& batch, Lane& lane) {
  for (;;) {
    if (!batch.mine.empty()) {
      absl::Status status = Publish(batch, lane.encoder->Encode(batch.units));
      if (!status.ok()) return status;
    }
    if (batch.elsewhere.empty()) return absl::OkStatus();
    for (const UnitState* unit : batch.elsewhere) cache_->Wait(unit->entry);
    const std::vector<UnitState*> todo = std::move(batch.elsewhere);
    ShareOut(todo, &batch);
  }
}

void ModelExecutor::KeepEmbeddings(Batch& batch) {
  for (size_t i = 0; i < batch.job.units.size(); ++i) {
    RequestState& state = *batch.held[i];
    UnitState& unit = state.units[static_cast<size_t>(batch.job.units[i].unit)];
    unit.entry.reset();
    if (!state.kept_embeddings.empty()) {
      const int64_t hidden = model_.config.text.hidden_size;
      std::copy_n(unit.embeddings.data(), unit.plan.tokens * hidden,
                  state.kept_embeddings.data() + unit.first_row * hidden);
    }
    if (unit.stored) unit.embeddings.Reset();
  }
}

void ModelExecutor::ReleasePixels(UnitRef ref) {
  const std::shared_ptr<RequestState> state = Find(ref.request);
  if (state == nullptr) return;
  UnitState& unit = state->units[static_cast<size_t>(ref.unit)];
  unit.patches.reset();
  unit.source = UnitSource();  // of one that was not prepared: reused KV covers it
}

void ModelExecutor::ReleaseEmbedding(UnitRef ref) {
  const std::shared_ptr<RequestState> state = Find(ref.request);
  if (state == nullptr) return;
  UnitState& unit = state->units[static_cast<size_t>(ref.unit)];
  unit.embeddings.Reset();
  unit.stored.Reset();
}

// ---- Prefill
// -------------------------------------------------------------------------------------

void ModelExecutor::Forward(StageJob job, Done done) {
  StageRunner::States states;
  for (const StageJobEntry& entry : job.entries) {
    std::shared_ptr<RequestState> state;
    if (!entry.ended) {
      state = Find(entry.chunk.request);
      if (state == nullptr) return std::move(done)(NoState(entry.chunk.request));
    }
    states.push_back(std::move(state));
  }
  struct Ending {
    RequestId request = 0;
    RequestState* state = nullptr;
  };
  std::vector<Ending> endings;  // by entry; the runner keeps the states
  if (job.last_stage) {
    for (size_t i = 0; i < states.size(); ++i) {
      endings.push_back({job.entries[i].chunk.request, states[i].get()});
    }
  }
  StageRunner& stage = *lanes_[static_cast<size_t>(job.worker)].stage;
  stage.Start(
      std::move(job), std::move(states),
      [this, endings = std::move(endings)](size_t entry, const StageRunner::PromptEnd& end) {
        FinishPrompt(endings[entry].request, *endings[entry].state, end);
      },
      std::move(done));
}

void ModelExecutor::FinishPrompt(RequestId request, RequestState& state,
                                 const StageRunner::PromptEnd& end) {
  absl::StatusOr<FirstToken> first = end.likeliest != nullptr
                                         ? TakeLikeliest(*end.likeliest)
                                         : SampleToken(end.logits, state.sampling);
  state.first_token_status = first.status();
  if (!first.ok()) return;
  state.first_token = *first;
  std::vector<float> kept;
  if (state.keep_logits) kept.assign(end.logits.begin(), end.logits.end());
  details_->SetFirstToken(request, *first, std::move(kept), std::move(state.kept_embeddings));
}

void ModelExecutor::DropMicroBatch(uint64_t micro_batch) {
  handover_.Drop(micro_batch);
  for (const Lane& lane : lanes_) {
    if (lane.stage != nullptr) lane.stage->Forget(micro_batch);
  }
}

absl::Status ModelExecutor::TakeFirstToken(RequestId request, FirstToken* out) {
  const std::shared_ptr<RequestState> state = Find(request);
  if (state == nullptr) return NoState(request);
  if (state->first_token_status.ok()) *out = state->first_token;
  return state->first_token_status;
}

}  // namespace rserve::runtime
