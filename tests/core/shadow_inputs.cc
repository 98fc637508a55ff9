// What the inputs mean for the books, and which events they make legal.

#include <algorithm>

#include "tests/core/shadow_model.h"

namespace rserve::test {

void ShadowModel::Apply(const Orchestrator& orchestrator, const Input& input) {
  if (const auto* submit = std::get_if<SubmitInput>(&input)) {
    ApplySubmit(orchestrator, submit->plan);
  } else if (const auto* cancel = std::get_if<CancelInput>(&input)) {
    if (ShadowRequest* request = Find(cancel->request); request != nullptr && !request->ended) {
      request->may_cancel = request->must_end = true;
    }
  } else if (const auto* prepared = std::get_if<PrepareFinishedInput>(&input)) {
    OutAction action;
    if (!TakeOut(prepared->token, TokenKind::kPrepare, &action)) return;
    ShadowRequest* request = Find(action.units[0].request);
    ShadowUnit& unit = request->units[action.units[0].unit];
    request->tokens_out -= 1;
    if (prepared->status.ok()) {
      unit.state = ShadowUnit::State::kPrepared;
      request->times.last_prepare_ns = now_ns_;
    } else {
      unit.state = ShadowUnit::State::kFailed;
      if (!request->ended) {
        request->may_fail.push_back(prepared->status.code());
        request->must_end = true;
        Hit(Reached::kPrepareFailed);
      }
    }
  } else if (const auto* encoded = std::get_if<EncodeFinishedInput>(&input)) {
    OutAction action;
    if (TakeOut(encoded->token, TokenKind::kEncode, &action)) ApplyEncode(action, *encoded);
  } else if (const auto* stage = std::get_if<StageFinishedInput>(&input)) {
    OutAction action;
    if (TakeOut(stage->token, TokenKind::kStage, &action)) {
      FinishStage(action.micro_batch, stage->status);
    }
  } else if (const auto* started = std::get_if<StartedInput>(&input)) {
    const bool known = std::any_of(out_.begin(), out_.end(), [&](const OutAction& action) {
      return action.token == started->token;
    });
    if (!known) stale_high_ += 1;  // the contract only speaks of *finished tokens
    for (auto& request : requests_) request->started_given = true;
  } else if (const auto* lost = std::get_if<WorkerLostInput>(&input)) {
    LoseWorker(lost->worker);
  } else if (std::holds_alternative<DrainInput>(input)) {
    draining_ = true;
    Hit(Reached::kDrained);
  } else if (std::holds_alternative<AbortInput>(input)) {
    draining_ = true;
    Hit(Reached::kAborted);
    for (auto& request : requests_) {
      if (!request->ended) request->may_cancel = request->must_end = true;
    }
  }
}

void ShadowModel::ApplySubmit(const Orchestrator& orchestrator, const RequestPlan& plan) {
  PendingSubmit pending = {.id = plan.id, .fits = orchestrator.CheckFits(plan)};
  const ShadowRequest* known = Find(plan.id);
  pending.refuse = known != nullptr || draining_;
  if (known != nullptr) Hit(Reached::kRefusedDuplicateId);
  if (draining_) Hit(Reached::kRefusedAfterDrain);
  int64_t input_bytes = plan.input_bytes;
  for (const auto& request : requests_) input_bytes += request->shape.plan().input_bytes;
  pending.over_queue = known_requests() + 1 > config_.budgets.queue_requests;
  pending.over_input = input_bytes > config_.budgets.input_bytes;
  pending.late = plan.deadline_ns <= now_ns_;
  submits_.push_back(pending);
  if (pending.refuse || !pending.fits.ok()) return;
  auto request = std::make_unique<ShadowRequest>(plan);
  request->arrival = ++arrivals_;
  request->units.resize(plan.units.size());
  request->encoded.assign(plan.units.size(), false);
  request->item_encoded.assign(plan.num_items, false);
  request->input_released.assign(plan.num_items, false);
  request->frontier = request->shape.FrontierOf(request->encoded, 0);
  request->times.submitted_ns = now_ns_;
  requests_.push_back(std::move(request));
}

bool ShadowModel::TakeOut(ActionToken token, TokenKind kind, OutAction* action) {
  const auto it = std::find_if(out_.begin(), out_.end(),
                               [&](const OutAction& other) { return other.token == token; });
  if (it == out_.end() || it->kind != kind) {
    stale_low_ += 1, stale_high_ += 1;
    if (it != out_.end()) {
      Hit(Reached::kWrongKindOfToken);
    } else {
      Hit(tokens_seen_.contains(token) ? Reached::kDuplicateToken : Reached::kStaleToken);
    }
    return false;
  }
  *action = std::move(*it);
  out_.erase(it);
  return true;
}

void ShadowModel::FailUnit(ShadowRequest* request, int32_t index, const absl::Status& status) {
  ShadowUnit& unit = request->units[index];
  const bool again = status.code() == absl::StatusCode::kUnavailable;
  if (again && unit.attempts < config_.max_encode_attempts) {
    unit.state =
        config_.prepare_lanes > 0 ? ShadowUnit::State::kPrepared : ShadowUnit::State::kWaiting;
    return;
  }
  unit.state = ShadowUnit::State::kFailed;
  if (request->ended) return;
  if (again && config_.max_encode_attempts > 1) Hit(Reached::kEncodeRetriesUsedUp);
  request->may_fail.push_back(status.code());
  request->must_end = true;
}

void ShadowModel::ApplyEncode(const OutAction& action, const EncodeFinishedInput& input) {
  ShadowRequest* named = nullptr;
  if (!input.status.ok()) Hit(Reached::kEncodeBatchFailed);
  for (size_t i = 0; i < action.units.size(); ++i) {
    ShadowRequest* request = Find(action.units[i].request);
    if (request != named) request->tokens_out -= 1;
    named = request;
    const int32_t index = action.units[i].unit;
    absl::Status status = input.status;
    if (status.ok() && !input.unit_status.empty()) {
      status = input.unit_status[i];
      if (!status.ok()) Hit(Reached::kEncodeUnitFailed);
    }
    if (!status.ok()) {
      FailUnit(request, index, status);
      continue;
    }
    ShadowUnit& unit = request->units[index];
    unit.state = ShadowUnit::State::kEncoded;
    if (unit.attempts > 1) Hit(Reached::kEncodeRetryHelped);
    request->encoded[index] = true;
    request->units_encoded += 1;
    request->frontier = request->shape.FrontierOf(request->encoded, request->reused);
    if (!request->ended && !request->must_end) request->times.last_encode_ns = now_ns_;
  }
}

void ShadowModel::FailMicroBatch(ShadowMicroBatch* batch, absl::StatusCode code) {
  batch->failed = true;
  for (ShadowMicroBatch::Entry& entry : batch->entries) {
    if (entry.request == nullptr || entry.request->ended) continue;
    entry.request->may_fail.push_back(code);
    entry.request->must_end = true;
  }
}

void ShadowModel::FinishStage(uint64_t micro_batch, const absl::Status& status) {
  const auto it = std::find_if(batches_.begin(), batches_.end(),
                               [&](const auto& batch) { return batch.number == micro_batch; });
  it->out = false;
  for (ShadowMicroBatch::Entry& entry : it->entries) {
    entry.reads = false;
    if (entry.request != nullptr) entry.request->tokens_out -= 1;
  }
  const bool last = it->stage == num_stages_ - 1;
  if (!status.ok()) {
    Hit(OfStage(Reached::kStageFailed0, it->stage));
    FailMicroBatch(&*it, status.code());
    return;  // it stays until it is dropped
  } else {
    for (ShadowMicroBatch::Entry& entry : it->entries) {
      if (entry.request == nullptr) continue;
      if (it->stage == entry.request->shape.plan().last_reader_stage) {
        entry.request->committed = entry.chunk.begin + entry.chunk.tokens;
        if (it->stage > 0 && entry.request->shape.num_units() > 0) Hit(Reached::kLateReader);
      }
      if (last) {
        entry.request->prefilled = entry.chunk.begin + entry.chunk.tokens;
        NoteWritten(*entry.request, entry.chunk.begin, entry.request->prefilled);
        if (entry.request->prefilled == entry.request->shape.plan().prompt_tokens) {
          entry.request->first_token_due = true;
        }
      }
    }
  }
  if (last) {
    for (ShadowMicroBatch::Entry& entry : it->entries) {
      if (entry.request != nullptr) entry.request->chunks_in_flight -= 1;
    }
    batches_.erase(it);
  }
}

void ShadowModel::LoseWorker(int32_t worker) {
  if (worker < 0 || worker >= static_cast<int32_t>(lost_.size()) || lost_[worker]) return;
  lost_[worker] = true;
  any_lost_ = lost_now_ = true;
  const bool stage = config_.workers[worker].stage >= 0;
  any_stage_lost_ |= stage;
  if (stage) Hit(Reached::kStageLost);
  if (config_.workers[worker].encoder) Hit(Reached::kEncoderLost);
  std::vector<OutAction> gone;
  for (size_t i = 0; i < out_.size();) {
    if (out_[i].worker != worker) {
      ++i;
      continue;
    }
    gone.push_back(std::move(out_[i]));
    out_.erase(out_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  for (const OutAction& action : gone) {
    if (action.kind == TokenKind::kStage) {
      FinishStage(action.micro_batch, absl::UnavailableError("lost"));
      continue;
    }
    // Whether a unit is encoded again elsewhere or fails its request is the orchestrator's choice.
    ShadowRequest* named = nullptr;
    for (const UnitRef ref : action.units) {
      ShadowRequest* request = Find(ref.request);
      if (request != named) request->tokens_out -= 1;
      named = request;
      request->units[ref.unit].state =
          config_.prepare_lanes > 0 ? ShadowUnit::State::kPrepared : ShadowUnit::State::kWaiting;
    }
  }
  for (auto& request : requests_) request->may_fail_any = true;
}

}  // namespace rserve::test
