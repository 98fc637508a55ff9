// Events: which are legal when, each of them once, none after the terminal one.

#include <algorithm>

#include "tests/core/shadow_model.h"

namespace rserve::test {

void ShadowModel::OnRefusedOrAccepted(const EventAction& event) {
  const auto pending =
      std::find_if(submits_.begin(), submits_.end(),
                   [&](const PendingSubmit& submit) { return submit.id == event.request; });
  const bool accepted = event.type == EventType::kAccepted;
  if (pending == submits_.end()) {
    return Fail("6", EventName(event.type), " for r", event.request, " without a submit");
  }
  const PendingSubmit submit = *pending;
  submits_.erase(pending);
  const bool counts_of_room = submit.over_queue || submit.over_input;
  if (accepted) {
    if (submit.refuse) return Fail("6", "r", event.request, " accepted: draining or known id");
    if (!submit.fits.ok()) {
      return Fail("6", "r", event.request, " accepted: ", submit.fits.ToString());
    }
    ShadowRequest* request = Find(event.request);
    request->accepted = true;
    accepted_ += 1;
    open_ += 1;
    input_bytes_ += request->shape.plan().input_bytes;
    if (open_ > config_.budgets.queue_requests) {
      Fail("4", "open requests ", open_, " > ", config_.budgets.queue_requests);
    }
    if (input_bytes_ > config_.budgets.input_bytes) {
      Fail("4", "input bytes ", input_bytes_, " > ", config_.budgets.input_bytes);
    }
    return AcceptReuse(event, request);
  }
  refused_ += 1;
  if (event.status == nullptr || event.status->ok()) {
    return Fail("6", "r", event.request, " refused without a reason");
  }
  if (!submit.refuse && submit.fits.ok() && !counts_of_room && !submit.late && !any_lost_) {
    return Fail("6", "r", event.request, " refused without need: ", event.status->ToString());
  }
  if (!submit.refuse && !submit.fits.ok()) {
    if (submit.fits.code() != event.status->code() && !any_lost_) {
      return Fail("6", "r", event.request,
                  " refused with another code than CheckFits: ", event.status->ToString(),
                  " against ", submit.fits.ToString());
    }
    Hit(event.status->code() == absl::StatusCode::kInvalidArgument ? Reached::kRefusedMalformed
                                                                   : Reached::kRefusedNeverFits);
  }
  if (submit.refuse || !submit.fits.ok()) return;  // it never came into the books
  if (submit.over_queue && !submit.over_input) Hit(Reached::kRefusedByQueue);
  if (submit.over_input && !submit.over_queue) Hit(Reached::kRefusedByInputBytes);
  requests_.erase(std::find_if(requests_.begin(), requests_.end(), [&](const auto& request) {
    return request->id() == event.request && !request->accepted;
  }));
}

void ShadowModel::OnEvent(const EventAction& event) {
  if (event.type == EventType::kAccepted || event.type == EventType::kRefused) {
    return OnRefusedOrAccepted(event);
  }
  ShadowRequest* request = Find(event.request);
  if (request == nullptr || !request->accepted || request->ended) {
    return Fail("6", EventName(event.type), " for r", event.request,
                request != nullptr && request->ended ? " after its terminal event"
                                                     : ", which is not accepted");
  }
  switch (event.type) {
    case EventType::kItemEncoded:
    case EventType::kInputReleased:
      return OnItemEvent(event, request);
    case EventType::kFirstToken:
      if (request->first_token) return Fail("6", "r", event.request, " has two first tokens");
      if (!request->first_token_due) {
        return Fail("6", "r", event.request, " has a first token, but its prompt is not through");
      }
      request->first_token = true;
      request->times.first_token_ns = now_ns_;
      return CheckTimes(event, *request);
    case EventType::kFinished:
    case EventType::kFailed:
    case EventType::kCancelled:
      return OnTerminal(event, request);
    default:
      return Fail("6", "an event of unknown type ", static_cast<int>(event.type));
  }
}

void ShadowModel::OnItemEvent(const EventAction& event, ShadowRequest* request) {
  const RequestPlan& plan = request->shape.plan();
  if (event.item < 0 || event.item >= plan.num_items) {
    return Fail("6", EventName(event.type), " of r", event.request, " for item ", event.item);
  }
  const bool encoded = event.type == EventType::kItemEncoded;
  std::vector<bool>& seen = encoded ? request->item_encoded : request->input_released;
  if (seen[event.item]) {
    return Fail("6", "r", event.request, " item ", event.item, " has two events ",
                EventName(event.type));
  }
  seen[event.item] = true;
  for (size_t u = 0; u < plan.units.size(); ++u) {
    if (plan.units[u].item != event.item) continue;
    const ShadowUnit::State state = request->units[u].state;
    if (encoded && state != ShadowUnit::State::kEncoded && state != ShadowUnit::State::kCovered) {
      return Fail("6", "r", event.request, " item ", event.item,
                  " is told to be encoded, but unit ", u, " is not");
    }
    const bool read = state == ShadowUnit::State::kPreparing ||
                      (config_.prepare_lanes == 0 && state == ShadowUnit::State::kEncoding);
    if (!encoded && read) {
      return Fail("6", "input of r", event.request, " item ", event.item,
                  " is released while the token of unit ", u, " may read it");
    }
    const bool unread = state == ShadowUnit::State::kWaiting;
    if (!encoded && unread && MustKeep(*request)) {
      return Fail("6", "input of r", event.request, " item ", event.item, " is released, but unit ",
                  u, " still needs it");
    }
  }
}

void ShadowModel::OnTerminal(const EventAction& event, ShadowRequest* request) {
  const RequestPlan& plan = request->shape.plan();
  const RequestId id = request->id();
  for (int32_t item = 0; item < plan.num_items; ++item) {
    if (!request->input_released[item]) {
      return Fail("6", "r", id, " ended before the input of item ", item, " was released");
    }
  }
  if (event.type == EventType::kFinished) {
    if (!request->first_token || request->prefilled != plan.prompt_tokens) {
      return Fail("6", "r", id, " finished with ", request->prefilled, " of ", plan.prompt_tokens,
                  " tokens through the last stage, first token told: ", request->first_token);
    }
    for (int32_t item = 0; item < plan.num_items; ++item) {
      if (!request->item_encoded[item]) {
        return Fail("6", "r", id, " finished without item-encoded of item ", item);
      }
    }
    finished_ += 1;
    Hit(plan.num_items > 0 ? Reached::kFinishedWithItems : Reached::kFinishedTextOnly);
    const Policy& policy = config_.policy;
    if (plan.num_items > 0) {
      if (policy.gate == Gate::kWholeRequest) Hit(Reached::kFinishedWholeRequestGate);
      if (policy.sharing == Sharing::kOneRequest) Hit(Reached::kFinishedOneRequestSharing);
      if (policy.one_chunk_in_flight) Hit(Reached::kFinishedOneChunkInFlight);
      if (policy.encode_batch_tokens == kEncodeAll) Hit(Reached::kFinishedEncodeAllAtOnce);
      if (policy.trigger == EncodeTrigger::kOnFirstChunk) Hit(Reached::kFinishedEncodeOnFirstChunk);
      if (policy.trigger == EncodeTrigger::kOnChunk) Hit(Reached::kFinishedEncodeOnChunk);
      if (policy.order == Order::kShortestFirst) Hit(Reached::kFinishedShortestFirst);
      if (policy.order == Order::kFeasibleFirst) Hit(Reached::kFinishedFeasibleFirst);
      if (policy.square_root_budget) Hit(Reached::kFinishedSquareRootBudget);
      if (policy.adaptive_encode_batch) Hit(Reached::kFinishedAdaptiveEncodeBatch);
    }
    int64_t bytes = 0;
    for (const UnitPlan& unit : plan.units) bytes += unit.embedding_bytes;
    if (bytes > config_.budgets.embedding_bytes) Hit(Reached::kLargerThanEmbeddingBudget);
  } else if (event.status == nullptr || event.status->ok()) {
    return Fail("6", "r", id, " ", EventName(event.type), " without a reason");
  } else if (event.type == EventType::kCancelled) {
    if (!request->may_cancel) return Fail("6", "r", id, " cancelled, but nobody asked for it");
    cancelled_ += 1;
  } else {
    const absl::StatusCode code = event.status->code();
    const bool late = code == absl::StatusCode::kDeadlineExceeded && DeadlinePassed(*request);
    const bool told = std::find(request->may_fail.begin(), request->may_fail.end(), code) !=
                      request->may_fail.end();
    if (!late && !told && !request->may_fail_any) {
      return Fail("6", "r", id, " failed without a cause: ", event.status->ToString());
    }
    failed_ += 1;
  }
  CheckTimes(event, *request);
  request->ended = true;
  open_ -= 1;
  input_bytes_ -= plan.input_bytes;
}

void ShadowModel::CheckTimes(const EventAction& event, const ShadowRequest& request) {
  if (event.times == nullptr) {
    return Fail("6", EventName(event.type), " of r", request.id(), " carries no times");
  }
  const RequestTimes& told = *event.times;
  const RequestTimes& own = request.times;
  if (told.submitted_ns != own.submitted_ns || told.first_token_ns != own.first_token_ns) {
    return Fail("6", "times of r", request.id(), " are wrong: submitted ", told.submitted_ns, " (",
                own.submitted_ns, "), first token ", told.first_token_ns, " (", own.first_token_ns,
                ")");
  }
  const bool encoded = request.units_encoded == request.shape.num_units() && !request.may_fail_any;
  if (told.first_prepare_ns != own.first_prepare_ns ||
      (encoded && told.last_prepare_ns != own.last_prepare_ns)) {
    return Fail("6", "times of r", request.id(), " are wrong: first prepare ",
                told.first_prepare_ns, " (", own.first_prepare_ns, "), last prepare ",
                told.last_prepare_ns, " (", own.last_prepare_ns, ")");
  }
  // A StartedInput may move these: the executor knows better when it began.
  if (request.started_given) return;
  if (told.first_encode_ns != own.first_encode_ns ||
      told.first_prefill_ns != own.first_prefill_ns ||
      (encoded && told.last_encode_ns != own.last_encode_ns)) {
    Fail("6", "times of r", request.id(), " are wrong: first encode ", told.first_encode_ns, " (",
         own.first_encode_ns, "), last encode ", told.last_encode_ns, " (", own.last_encode_ns,
         "), first prefill ", told.first_prefill_ns, " (", own.first_prefill_ns, ")");
  }
}

}  // namespace rserve::test
