#include "capi/action_log.h"

#include "absl/status/status.h"

static_assert(RSERVE_EVENT_REFUSED == static_cast<int>(rserve::EventType::kRefused));

namespace rserve::capi {
namespace {

const rserve_action kNone = RSERVE_ACTION_INIT;

}  // namespace

void ActionLog::Clear() { used_ = next_ = 0; }

const rserve_action& ActionLog::Next() { return next_ < used_ ? records_[next_++].action : kNone; }

ActionLog::Record& ActionLog::New(rserve_action_kind_t kind) {
  if (used_ == records_.size()) records_.emplace_back();
  Record& record = records_[used_++];
  record.action = RSERVE_ACTION_INIT;
  record.action.kind = kind;
  record.action.message = "";
  return record;
}

void ActionLog::OnPrepare(const PrepareAction& action) {
  rserve_action& out = New(RSERVE_ACTION_PREPARE).action;
  out.token = action.token;
  out.request_id = action.unit.request;
  out.unit = action.unit.unit;
}

void ActionLog::OnEncode(const EncodeAction& action) {
  Record& record = New(RSERVE_ACTION_ENCODE);
  record.units.clear();
  for (const UnitRef& unit : action.units) record.units.push_back(MakeUnitRef(unit));
  record.action.token = action.token;
  record.action.worker = action.worker;
  record.action.tokens = action.tokens;
  record.action.units = record.units.data();
  record.action.num_units = record.units.size();
}

void ActionLog::OnStage(const StageAction& action) {
  Record& record = New(RSERVE_ACTION_STAGE);
  record.entries.Clear();
  for (const StageEntryAction& entry : action.entries) {
    record.entries.Add(entry.chunk, entry.kv_blocks, entry.embeddings, entry.last_chunk,
                       entry.ended);
  }
  const std::vector<rserve_stage_entry>& entries = record.entries.Finish();
  record.action.token = action.token;
  record.action.worker = action.worker;
  record.action.stage = action.stage;
  record.action.flags = action.last_stage ? RSERVE_ACTION_F_LAST_STAGE : 0u;
  record.action.micro_batch = action.micro_batch;
  record.action.tokens = action.tokens;
  record.action.entries = entries.data();
  record.action.num_entries = entries.size();
}

void ActionLog::OnMicroBatchDropped(uint64_t micro_batch) {
  New(RSERVE_ACTION_DROP_MICRO_BATCH).action.micro_batch = micro_batch;
}

void ActionLog::AddRelease(rserve_action_kind_t kind, UnitRef unit) {
  rserve_action& out = New(kind).action;
  out.request_id = unit.request;
  out.unit = unit.unit;
}

void ActionLog::OnReleasePixels(UnitRef unit) { AddRelease(RSERVE_ACTION_RELEASE_PIXELS, unit); }

void ActionLog::OnReleaseEmbedding(UnitRef unit) {
  AddRelease(RSERVE_ACTION_RELEASE_EMBEDDING, unit);
}

void ActionLog::OnEvent(const EventAction& event) {
  Record& record = New(RSERVE_ACTION_EVENT);
  rserve_action& out = record.action;
  out.event_type = static_cast<rserve_event_type_t>(event.type);
  out.request_id = event.request;
  out.item = event.item;
  if (event.type == EventType::kAccepted || event.type == EventType::kRefused) {
    out.user_data = submitted_.front();
    submitted_.pop_front();
    if (event.type == EventType::kAccepted) user_data_[event.request] = out.user_data;
  } else {
    out.user_data = user_data_[event.request];
  }
  if (event.status != nullptr) {
    out.status = static_cast<rserve_status_t>(event.status->code());
    record.message.assign(event.status->message().data(), event.status->message().size());
    out.message = record.message.c_str();
    out.message_length = record.message.size();
  }
  if (event.times != nullptr) {
    record.times = {event.times->submitted_ns, event.times->first_encode_ns,
                    event.times->last_encode_ns, event.times->first_prefill_ns,
                    event.times->first_token_ns};
    out.times = &record.times;
  }
}

void ActionLog::OnForget(RequestId request) {
  New(RSERVE_ACTION_FORGET).action.request_id = request;
  user_data_.erase(request);
}

}  // namespace rserve::capi
