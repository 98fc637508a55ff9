// What to start: preparations, encode batches, micro-batches.

#include <algorithm>
#include <cstddef>

#include "src/core/orchestrator_impl.h"

namespace rserve {

void Orchestrator::Impl::Dispatch() {
  int32_t deepest = 0;
  for (const Worker& worker : workers_) deepest = std::max(deepest, worker.spec.depth);
  bool progress = true;
  while (progress) {
    progress = false;
    look_again_ = false;
    while (PrepareNext()) progress = true;
    // Level by level, so that no worker gets its second action before another has its first.
    for (int32_t level = 1; level <= deepest; ++level) {
      for (size_t w = 0; w < workers_.size(); ++w) {
        Worker& worker = workers_[w];
        const int32_t limit = std::min(level, worker.spec.depth);
        while (!worker.lost && worker.in_flight < limit &&
               IssueOne(worker, static_cast<int32_t>(w))) {
          progress = true;
        }
      }
    }
    progress = progress || look_again_;
  }
}

// One worker for everything overlaps nothing, so a part of a prompt that is prefilled by itself
// costs a micro-batch and gains nothing: the request that is next is encoded to its end first, as
// far as it has places.
RequestId Orchestrator::Impl::WaitsForEncode() {
  const RequestId front = tokens_.Front();
  return front != 0 && Find(front)->units_to_encode > 0 ? front : 0;
}

bool Orchestrator::Impl::IssueOne(Worker& worker, int32_t index) {
  const bool both = worker.spec.encoder && worker.spec.stage >= 0;
  auto try_role = [&](Role role) {
    return role == Role::kStage ? TryStage(worker, index) : TryEncode(worker, index);
  };
  const RequestId waits = both && alone_ ? WaitsForEncode() : 0;
  const Role first = waits != 0 ? Role::kEncoder : worker.spec.first;
  const Role other = first == Role::kStage ? Role::kEncoder : Role::kStage;
  // Encoding a request to its end passes nobody: it is first in both queues.
  if (both && waits == 0 && worker.passes >= worker.spec.max_passes) {
    worker.passes = 0;
    if (try_role(other)) return true;
  }
  if (try_role(first)) {
    if (both && waits == 0) ++worker.passes;
    return true;
  }
  if (!both && ((first == Role::kStage) == (worker.spec.stage >= 0))) return false;
  if (waits != 0 && Find(waits)->prepares_out > 0) return false;
  if (!try_role(other)) return false;
  worker.passes = 0;
  return true;
}

// ---- Encoding
// -------------------------------------------------------------------------------------

// Embeddings and units first; under a whole-request gate for all units at once.
bool Orchestrator::Impl::PlaceEmbedding(Request& r, int32_t unit) {
  const RequestId id = r.plan.id;
  if (config_.policy.gate == Gate::kWholeRequest) {
    if (!places_.TryPlaceAll(id)) return false;
    EndAwaitKv(r);
    for (int32_t u : r.layout.prompt_order) tracker_.Reserve({id, u});
    r.placed_whole = true;
    return true;
  }
  const UnitPlan& plan = r.plan.units[unit];
  if (!places_.TryPlaceNext(id, {plan.embedding_bytes, plan.pixel_bytes, 1})) return false;
  EndAwaitKv(r);
  tracker_.Reserve({id, unit});
  r.units[unit].pixels_held = true;
  return true;
}

bool Orchestrator::Impl::Place(UnitRef unit) {
  Request& r = *Find(unit.request);
  if (!tracker_.IsReserved(unit)) {
    // Such units are placed when stage 0 takes them (ChunkAfterEncode).
    if (EncodesAtItsTurn()) return false;
    if (!PlaceEmbedding(r, unit.unit)) return false;
  }
  UnitProgress& u = r.units[unit.unit];
  if (u.pixels_held) return true;
  if (!places_.TryPlacePixels(unit.request, r.plan.units[unit.unit].pixel_bytes)) return false;
  u.pixels_held = true;
  return true;
}

// Whose unit comes next when the first in order has no place: the one the deadlock argument needs.
RequestId Orchestrator::Impl::PreferredForPrepare() const {
  if (!EncodesAtItsTurn()) return places_.FirstRanked();
  for (const UnitRef& unit : awaited_) {
    const UnitProgress& u = requests_.find(unit.request)->second->units[unit.unit];
    if (!u.preparing && !u.prepared) return unit.request;
  }
  return 0;
}

RequestId Orchestrator::Impl::PreferredForEncode() const {
  if (!EncodesAtItsTurn()) return places_.FirstRanked();
  for (const UnitRef& unit : awaited_) {
    if (!requests_.find(unit.request)->second->units[unit.unit].encoding) return unit.request;
  }
  return 0;
}

bool Orchestrator::Impl::PrepareNext() {
  if (prepares_in_flight_ >= config_.prepare_lanes) return false;
  UnitRef unit;
  if (!encoder_.NextToPrepare(
          PreferredForPrepare(), [this](UnitRef u) { return Place(u); }, &unit)) {
    return false;
  }
  Request& r = *Find(unit.request);
  r.units[unit.unit].preparing = true;
  ++r.prepares_out;
  if (r.times.first_prepare_ns == 0) r.times.first_prepare_ns = now_ns_;
  ++prepares_in_flight_;
  PrepareAction action;
  action.token = NewToken();
  action.unit = unit;
  Flight& flight = flights_[action.token];
  flight.kind = Flight::Kind::kPrepare;
  flight.units.push_back(unit);
  sink_->OnPrepare(action);
  return true;
}

bool Orchestrator::Impl::TryEncode(Worker& worker, int32_t index) {
  if (!worker.spec.encoder) return false;
  ChooseEncodeBatch();
  if (!encoder_.NextBatch(
          now_ns_, PreferredForEncode(), [this](UnitRef u) { return Place(u); }, &unit_scratch_)) {
    return false;
  }
  EncodeAction action;
  action.token = NewToken();
  action.worker = index;
  for (const UnitRef& unit : unit_scratch_) {
    Request& r = *Find(unit.request);
    UnitProgress& u = r.units[unit.unit];
    u.encoding = true;
    ++u.attempts;
    ++r.encodes_out;
    action.tokens += r.plan.units[unit.unit].tokens;
    if (r.times.first_encode_ns == 0) {
      r.times.first_encode_ns = now_ns_;
      r.first_encode_token = action.token;
    }
  }
  action.units = unit_scratch_;
  Flight& flight = flights_[action.token];
  flight.kind = Flight::Kind::kEncode;
  flight.worker = index;
  flight.units = unit_scratch_;
  flight.begin_ns = now_ns_;
  ++worker.in_flight;
  ++stats_.encode_batches;
  sink_->OnEncode(action);
  return true;
}

// ---- Prefill
// --------------------------------------------------------------------------------------

bool Orchestrator::Impl::TryStage(Worker& worker, int32_t index) {
  const int32_t stage = worker.spec.stage;
  if (stage < 0) return false;
  if (stage == 0) return FormMicroBatch(index);
  std::deque<uint64_t>& ready = stages_[stage].ready;
  while (!ready.empty()) {
    const uint64_t micro_batch = ready.front();
    ready.pop_front();
    if (AllEnded(micro_batches_.find(micro_batch)->second)) {
      DropMicroBatch(micro_batch);
      look_again_ = true;  // its KV blocks and its place in flight are free for stage 0
      continue;
    }
    IssueStage(index, stage, micro_batch);
    return true;
  }
  return false;
}

bool Orchestrator::Impl::MayEnter(const Request& r) const {
  return r.has_kv || (places_.MayEnter(r.plan.id) && kv_.CanAllocate(r.kv_lacks));
}

bool Orchestrator::Impl::Enter(RequestId id) {
  Request& r = *Find(id);
  if (r.has_kv) return true;
  if (!MayEnter(r)) return false;
  kv_.EndHold(r.kv_blocks);
  r.kv_published = static_cast<int64_t>(r.kv_blocks.size());
  stats_.reused_tokens += r.reused_tokens;
  kv_.Allocate(r.kv_lacks, &r.kv_blocks);
  EndWaitForKv(r);
  EndAwaitKv(r);
  r.has_kv = true;
  places_.Enter(id);
  return true;
}

int64_t Orchestrator::Impl::ChunkFor(RequestId id, int64_t limit) {
  Request& r = *Find(id);
  if (!r.has_kv && !r.plan.kv_block_keys.empty()) ReuseBeforeEntry(r);
  if (EncodesAtItsTurn() && r.units_to_encode > 0) return ChunkAfterEncode(r, limit);
  // A part of a later prompt would only delay the one that is first (WaitsForEncode), so B ends
  // before it.
  if (alone_ && config_.policy.square_root_budget && r.units_to_encode > 0 &&
      !entry_scratch_.empty()) {
    return TokenScheduler::kCloseBatch;
  }
  const int64_t tokens = tracker_.LargestChunk(id, limit);
  return tokens > 0 ? tokens : TokenScheduler::kCloseBatch;
}

// EncodeTrigger kOnFirstChunk and kOnChunk: the request's turn has come, so what its chunk needs is
// placed and encoded now, and the stage waits for it.
int64_t Orchestrator::Impl::ChunkAfterEncode(Request& r, int64_t limit) {
  const RequestId id = r.plan.id;
  const bool whole = config_.policy.trigger == EncodeTrigger::kOnFirstChunk;
  const int64_t ready = whole ? 0 : tracker_.LargestChunk(id, limit);
  if (ready == limit) return ready;
  if (!MayEnter(r)) return TokenScheduler::kNoEntry;
  bool awaits = false;
  const int64_t end = whole ? r.plan.prompt_tokens : tracker_.Scheduled(id) + limit;
  for (int32_t unit : r.layout.prompt_order) {
    if (r.layout.first_token[unit] >= end) break;
    if (r.units[unit].encoded) continue;
    if (!tracker_.IsReserved({id, unit}) && !PlaceEmbedding(r, unit)) break;
    awaited_.insert({id, unit});
    awaits = true;
  }
  if (awaits) {
    look_again_ = true;
    return TokenScheduler::kNoBatch;
  }
  if (ready > 0) return ready;
  return tracker_.Schedulable(id) > 0 ? TokenScheduler::kCloseBatch : TokenScheduler::kPassRequest;
}

void Orchestrator::Impl::UpdateSchedulable(Request& r) {
  const RequestId id = r.plan.id;
  int64_t tokens = tracker_.Schedulable(id);
  if (r.units_to_encode > 0) {
    if (EncodesAtItsTurn()) {
      tokens = tokens_.Remaining(id);
    } else if (config_.policy.gate == Gate::kWholeRequest) {
      tokens = 0;
    }
  }
  tokens_.SetSchedulable(id, tokens);
}

bool Orchestrator::Impl::FormMicroBatch(int32_t worker_index) {
  if (static_cast<int64_t>(micro_batches_.size()) >= max_micro_batches_) return false;
  if (!awaited_.empty()) return false;
  ChooseTokenBudget();
  if (!tokens_.Next([this](RequestId id, int64_t limit) { return ChunkFor(id, limit); },
                    [this](RequestId id) { return Enter(id); }, &entry_scratch_)) {
    return false;
  }
  const uint64_t id = ++last_micro_batch_;
  MicroBatch& batch = micro_batches_[id];
  batch.entries = entry_scratch_;
  for (const BatchEntry& entry : batch.entries) {
    Request& r = *Find(entry.request);
    tracker_.Schedule(entry.request, entry.tokens);
    batch.tokens += entry.tokens;
    ++r.micro_batches_out;
    prefill_backlog_ -= entry.tokens;
    UpdateOrder(r);
    // Otherwise the scheduler's own count, less what it has just taken, is still right.
    if (EncodesAtItsTurn()) UpdateSchedulable(r);
  }
  ++stats_.micro_batches;
  IssueStage(worker_index, 0, id);
  return true;
}

void Orchestrator::Impl::IssueStage(int32_t worker_index, int32_t stage, uint64_t micro_batch) {
  const MicroBatch& batch = micro_batches_.find(micro_batch)->second;
  StageAction action;
  action.token = NewToken();
  action.worker = worker_index;
  action.stage = stage;
  action.last_stage = stage + 1 == num_stages_;
  action.micro_batch = micro_batch;
  action.tokens = batch.tokens;

  slice_scratch_.clear();
  stage_scratch_.clear();
  for (const BatchEntry& entry : batch.entries) {
    Request& r = *Find(entry.request);
    StageEntryAction out;
    out.chunk = entry;
    out.kv_blocks = r.kv_blocks;
    out.last_chunk = entry.begin + entry.tokens == r.plan.prompt_tokens;
    out.ended = r.ended;
    const size_t first = slice_scratch_.size();
    if (stage <= r.plan.last_reader_stage) {
      tracker_.Slices(entry.request, entry.begin, entry.tokens, &slice_scratch_);
    }
    // The vector may still move: remember the length now, point into it below.
    out.embeddings = {nullptr, slice_scratch_.size() - first};
    stage_scratch_.push_back(out);
    if (r.times.first_prefill_ns == 0) {
      r.times.first_prefill_ns = now_ns_;
      r.first_stage_token = action.token;
    }
  }
  size_t offset = 0;
  for (StageEntryAction& entry : stage_scratch_) {
    const size_t size = entry.embeddings.size();
    entry.embeddings = absl::MakeConstSpan(slice_scratch_).subspan(offset, size);
    offset += size;
  }
  action.entries = stage_scratch_;

  Flight& flight = flights_[action.token];
  flight.kind = Flight::Kind::kStage;
  flight.worker = worker_index;
  flight.micro_batch = micro_batch;
  flight.begin_ns = now_ns_;
  StageSlot slot;
  slot.micro_batch = micro_batch;
  stages_[stage].issued.push_back(slot);
  ++workers_[worker_index].in_flight;
  sink_->OnStage(action);
}

}  // namespace rserve
