// What finished: completions of preparations, encodes and stages, and lost workers.

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/core/orchestrator_impl.h"

namespace rserve {

bool Orchestrator::Impl::TakeFlight(ActionToken token, Flight::Kind kind, Flight* flight) {
  auto it = flights_.find(token);
  if (it == flights_.end() || it->second.kind != kind) {
    ++stats_.stale_tokens;
    return false;
  }
  *flight = std::move(it->second);
  flights_.erase(it);
  if (flight->worker >= 0) {
    Worker& worker = workers_[flight->worker];
    --worker.in_flight;
    // A worker does one action after another, so this one began when the last was over.
    flight->begin_ns = std::max(flight->begin_ns, worker.last_finish_ns);
    worker.last_finish_ns = now_ns_;
  }
  return true;
}

void Orchestrator::Impl::Apply(PrepareFinishedInput& input) {
  Flight flight;
  if (!TakeFlight(input.token, Flight::Kind::kPrepare, &flight)) return;
  --prepares_in_flight_;
  const UnitRef unit = flight.units[0];
  Request& r = *Find(unit.request);
  r.units[unit.unit].preparing = false;
  --r.prepares_out;
  if (r.ended) {
    Settle(r);
    return;
  }
  if (!input.status.ok()) {
    End(r, EventType::kFailed, std::move(input.status));
    return;
  }
  r.units[unit.unit].prepared = true;
  r.times.last_prepare_ns = now_ns_;
  encoder_.MarkPrepared(unit, now_ns_);
  ReleaseInputOfUnit(r, unit.unit);
}

void Orchestrator::Impl::Apply(EncodeFinishedInput& input) {
  Flight flight;
  if (!TakeFlight(input.token, Flight::Kind::kEncode, &flight)) return;
  if (input.status.ok()) Learn(flight);
  const bool by_unit = input.status.ok() && !input.unit_status.empty();
  for (size_t i = 0; i < flight.units.size(); ++i) {
    absl::Status status = input.status;
    if (by_unit) {
      status = i < input.unit_status.size()
                   ? input.unit_status[i]
                   : absl::InternalError("the encoder reported fewer units than its batch had");
    }
    FinishUnitEncode(flight.units[i], status);
  }
}

void Orchestrator::Impl::FinishUnitEncode(UnitRef unit, const absl::Status& status) {
  Request& r = *Find(unit.request);
  UnitProgress& u = r.units[unit.unit];
  u.encoding = false;
  --r.encodes_out;
  if (r.ended) {
    Settle(r);
    return;
  }
  if (!status.ok()) {
    // The place, and the pixels, are still held: the unit can go into another batch as it is.
    if (absl::IsUnavailable(status) && u.attempts < config_.max_encode_attempts) {
      encoder_.Requeue(unit, now_ns_);
    } else {
      End(r, EventType::kFailed, status);
    }
    return;
  }
  const UnitPlan& plan = r.plan.units[unit.unit];
  u.encoded = true;
  tracker_.MarkReady(unit);
  ReleasePixels(r, unit.unit);
  awaited_.erase(unit);
  ++stats_.encoded_units;
  stats_.encoded_tokens += plan.tokens;
  r.times.last_encode_ns = now_ns_;
  --r.units_to_encode;
  r.encode_tokens -= plan.tokens;
  encode_backlog_ -= plan.tokens;
  if (--r.item_units_to_encode[plan.item] == 0) Emit(EventType::kItemEncoded, r, plan.item);
  if (config_.prepare_lanes == 0) ReleaseInputOfUnit(r, unit.unit);
  UpdateSchedulable(r);
  UpdateOrder(r);
}

void Orchestrator::Impl::Apply(StageFinishedInput& input) {
  Flight flight;
  if (!TakeFlight(input.token, Flight::Kind::kStage, &flight)) return;
  if (input.status.ok()) Learn(flight);
  const int32_t stage = workers_[flight.worker].spec.stage;
  for (StageSlot& slot : stages_[stage].issued) {
    if (slot.micro_batch != flight.micro_batch) continue;
    slot.finished = true;
    slot.status = std::move(input.status);
    break;
  }
  AdvanceStage(stage);
}

// A stage runs its micro-batches in order, so they count as finished in order, whatever the order
// in which a host reports them.
void Orchestrator::Impl::AdvanceStage(int32_t stage) {
  std::deque<StageSlot>& issued = stages_[stage].issued;
  while (!issued.empty() && issued.front().finished) {
    const StageSlot slot = std::move(issued.front());
    issued.pop_front();
    if (!slot.status.ok()) {
      // What the stage before handed over may still be there: a stage can fail before it looks.
      sink_->OnMicroBatchDropped(slot.micro_batch);
      RetireMicroBatch(slot.micro_batch, slot.status);
      continue;
    }
    CommitEmbeddings(stage, micro_batches_.find(slot.micro_batch)->second);
    if (stage + 1 < num_stages_) {
      Stage& next = stages_[stage + 1];
      if (workers_[next.worker].lost) {
        DropMicroBatch(slot.micro_batch);
      } else {
        next.ready.push_back(slot.micro_batch);
      }
    } else {
      RetireMicroBatch(slot.micro_batch, absl::OkStatus());
    }
  }
}

void Orchestrator::Impl::CommitEmbeddings(int32_t stage, const MicroBatch& batch) {
  for (const BatchEntry& entry : batch.entries) {
    Request& r = *Find(entry.request);
    if (r.plan.last_reader_stage != stage) continue;
    released_scratch_.clear();
    tracker_.Commit(entry.request, entry.tokens, &released_scratch_);
    for (int32_t unit : released_scratch_) {
      places_.ReleaseEmbedding(entry.request, r.plan.units[unit].embedding_bytes);
      sink_->OnReleaseEmbedding({entry.request, unit});
    }
  }
}

void Orchestrator::Impl::RetireMicroBatch(uint64_t id, const absl::Status& status) {
  auto it = micro_batches_.find(id);
  const MicroBatch batch = std::move(it->second);
  micro_batches_.erase(it);
  for (const BatchEntry& entry : batch.entries) {
    Request& r = *Find(entry.request);
    --r.micro_batches_out;
    tokens_.Retire(entry.request);
    if (r.ended) {
      Settle(r);
    } else if (!status.ok()) {
      End(r, EventType::kFailed, status);
    } else {
      stats_.prefilled_tokens += entry.tokens;
      PublishKv(r, entry.begin + entry.tokens);
      if (entry.begin + entry.tokens == r.plan.prompt_tokens) {
        r.times.first_token_ns = now_ns_;
        Emit(EventType::kFirstToken, r);
        End(r, EventType::kFinished, absl::OkStatus());
      }
    }
  }
}

bool Orchestrator::Impl::AllEnded(const MicroBatch& batch) const {
  return std::all_of(batch.entries.begin(), batch.entries.end(), [this](const BatchEntry& entry) {
    return requests_.find(entry.request)->second->ended;
  });
}

void Orchestrator::Impl::DropMicroBatch(uint64_t id) {
  sink_->OnMicroBatchDropped(id);
  RetireMicroBatch(id, absl::OkStatus());
}

void Orchestrator::Impl::Apply(StartedInput& input) {
  auto it = flights_.find(input.token);
  if (it == flights_.end()) return;
  it->second.begin_ns = now_ns_;
  for (const UnitRef& unit : it->second.units) {
    Request& r = *Find(unit.request);
    if (r.first_encode_token == input.token) r.times.first_encode_ns = now_ns_;
  }
  auto batch = micro_batches_.find(it->second.micro_batch);
  if (batch == micro_batches_.end()) return;
  for (const BatchEntry& entry : batch->second.entries) {
    Request& r = *Find(entry.request);
    if (r.first_stage_token == input.token) r.times.first_prefill_ns = now_ns_;
  }
}

// ---- Lost workers
// ---------------------------------------------------------------------------------

void Orchestrator::Impl::Apply(WorkerLostInput& input) {
  if (input.worker < 0 || static_cast<size_t>(input.worker) >= workers_.size()) return;
  Worker& worker = workers_[input.worker];
  if (worker.lost) return;
  worker.lost = true;
  const absl::Status status = absl::UnavailableError(
      absl::StrCat("worker ", input.worker, " is lost: ", input.status.message()));
  std::vector<ActionToken> tokens;
  for (const auto& [token, flight] : flights_) {
    if (flight.worker == input.worker) tokens.push_back(token);
  }
  std::sort(tokens.begin(), tokens.end());
  if (worker.spec.stage >= 0) LoseStage(worker.spec.stage, tokens, status);
  if (worker.spec.encoder) LoseEncoder(tokens, status);
}

// What it was encoding is encoded again elsewhere: the pixels and the places are still held.
void Orchestrator::Impl::LoseEncoder(const std::vector<ActionToken>& tokens,
                                     const absl::Status& status) {
  const bool others = EncodersLeft() > 0;
  for (ActionToken token : tokens) {
    Flight flight;
    if (!flights_.contains(token) || flights_[token].kind != Flight::Kind::kEncode) continue;
    TakeFlight(token, Flight::Kind::kEncode, &flight);
    for (const UnitRef& unit : flight.units) {
      Request& r = *Find(unit.request);
      r.units[unit.unit].encoding = false;
      --r.encodes_out;
      if (r.ended) {
        Settle(r);
      } else if (others) {
        encoder_.Requeue(unit, now_ns_);
      } else {
        End(r, EventType::kFailed, status);
      }
    }
  }
  if (!others) EndAll(EventType::kFailed, status, /*only_with_encodes_left=*/true);
}

// Nothing can be prefilled any more: every request ends.
void Orchestrator::Impl::LoseStage(int32_t stage, const std::vector<ActionToken>& tokens,
                                   const absl::Status& status) {
  if (refuse_.ok()) refuse_ = status;
  for (ActionToken token : tokens) {
    if (flights_[token].kind != Flight::Kind::kStage) continue;
    StageFinishedInput finished;
    finished.token = token;
    finished.status = status;
    Apply(finished);
  }
  EndAll(EventType::kFailed, status, /*only_with_encodes_left=*/false);
  // The lost stage will never take what waits for it.
  std::deque<uint64_t>& ready = stages_[stage].ready;
  while (!ready.empty()) {
    const uint64_t micro_batch = ready.front();
    ready.pop_front();
    DropMicroBatch(micro_batch);
  }
}

int32_t Orchestrator::Impl::EncodersLeft() const {
  int32_t left = 0;
  for (const Worker& worker : workers_) left += worker.spec.encoder && !worker.lost ? 1 : 0;
  return left;
}

}  // namespace rserve
