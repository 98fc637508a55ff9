#include "src/runtime/driver.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "src/runtime/clock.h"
#include "src/runtime/completion.h"
#include "src/runtime/exception_guard.h"

namespace rserve::runtime {
namespace {

// Inputs of one step, so that a burst of submits needs no memory to get to the orchestrator.
constexpr size_t kInputsPerStep = 256;

}  // namespace

Driver::Driver(const Parts& parts) : parts_(parts) { batch_.reserve(kInputsPerStep); }

void Driver::Run() {
  while (actions_out_ > 0 || !parts_.inbox->stopped()) {
    std::list<InboxItem> items;
    parts_.inbox->Take(failed() ? kNever : parts_.orchestrator.next_wake_ns(), &items);
    actions_out_ -= std::count_if(items.begin(), items.end(),
                                  [](const InboxItem& item) { return item.finishes_action; });
    now_ns_ = std::max(now_ns_, MonotonicNow());
    if (!failed()) {
      const absl::Status status = RunGuarded("the driver", [&] { Advance(items); });
      if (!status.ok()) Fail(status);
    }
    parts_.inbox->Settle(std::exchange(touched_, nullptr));
    if (failed() && !ended_ && actions_out_ == 0) EndAll();
    PublishStats();
    parts_.events.Push(std::move(events_));
    events_.clear();
    if (parts_.trace) Trace(items);
  }
}

void Driver::Advance(std::list<InboxItem>& items) {
  auto item = items.begin();
  do {
    batch_.clear();
    for (; item != items.end() && batch_.size() < kInputsPerStep; ++item) {
      if (item->submitted != nullptr) records_.emplace(item->submitted->id, item->submitted);
      batch_.push_back(std::move(item->input));
    }
    parts_.orchestrator.Step(now_ns_, absl::MakeSpan(batch_), *this);
  } while (item != items.end());
  batch_.clear();
}

void Driver::Fail(const absl::Status& why) {
  failure_ = why;
  parts_.inbox->Refuse("has failed");
  parts_.logger.Write(kLogError, "the engine failed, actions out", actions_out_, why);
}

void Driver::EndAll() {
  ended_ = true;
  parts_.inbox->EndAll([&](RequestRecord& record) {
    std::list<Event> slot = TakeSlot(EventType::kFailed, record);
    slot.front().status = failure_;
    events_.splice(events_.end(), slot);
  });
  records_.clear();
}

OrchestratorStats Driver::stats() const {
  std::lock_guard<std::mutex> lock(stats_mu_);
  return stats_;
}

void Driver::PublishStats() {
  OrchestratorStats stats = parts_.orchestrator.stats();
  stats.finished -= failed_first_tokens_;
  stats.failed += failed_first_tokens_;
  if (ended_) {
    stats.failed += stats.open_requests;
    stats.open_requests = stats.lingering_requests = 0;
  }
  std::lock_guard<std::mutex> lock(stats_mu_);
  stats_ = stats;
}

void Driver::Trace(const std::list<InboxItem>& items) {
  for (const InboxItem& item : items) {
    if (!item.span.has_value()) continue;
    const absl::Status status = RunGuarded("trace", [&] { parts_.trace(*item.span); });
    if (!status.ok())
      parts_.logger.Write(kLogWarning, "trace of worker", item.span->worker, status);
  }
}

std::shared_ptr<Completion> Driver::NewCompletion(Input finished, TraceSpan::Kind kind,
                                                  int32_t worker) {
  std::list<InboxItem> item(1);
  item.front().input = std::move(finished);
  item.front().finishes_action = true;
  if (parts_.trace) {
    TraceSpan& span = item.front().span.emplace();
    span.kind = kind;
    span.worker = worker;
  }
  auto completion = std::make_shared<Completion>(parts_.inbox, std::move(item));
  ++actions_out_;
  return completion;
}

void Driver::OnPrepare(const PrepareAction& action) {
  PrepareJob job;
  job.unit = action.unit;
  job.completion = NewCompletion(PrepareFinishedInput{action.token, absl::OkStatus()},
                                 TraceSpan::Kind::kPrepare, /*worker=*/-1);
  if (TraceSpan* span = job.completion->span()) span->units = {action.unit};
  parts_.media.Push(std::move(job));
}

void Driver::OnEncode(const EncodeAction& action) {
  EncodeJob encode;
  encode.worker = action.worker;
  encode.units.assign(action.units.begin(), action.units.end());
  encode.tokens = action.tokens;
  WorkerJob job;
  job.completion = NewCompletion(EncodeFinishedInput{action.token, absl::OkStatus(), {}},
                                 TraceSpan::Kind::kEncode, action.worker);
  if (TraceSpan* span = job.completion->span()) {
    span->tokens = encode.tokens;
    span->units = encode.units;
  }
  job.work = std::move(encode);
  parts_.workers[action.worker]->Push(std::move(job));
}

void Driver::OnStage(const StageAction& action) {
  StageJob stage;
  stage.worker = action.worker;
  stage.stage = action.stage;
  stage.last_stage = action.last_stage;
  stage.micro_batch = action.micro_batch;
  stage.tokens = action.tokens;
  stage.entries.reserve(action.entries.size());
  for (const StageEntryAction& entry : action.entries) {
    stage.entries.push_back({entry.chunk,
                             {entry.kv_blocks.begin(), entry.kv_blocks.end()},
                             {entry.embeddings.begin(), entry.embeddings.end()},
                             entry.last_chunk,
                             entry.ended});
  }
  WorkerJob job;
  job.completion = NewCompletion(StageFinishedInput{action.token, absl::OkStatus()},
                                 TraceSpan::Kind::kStage, action.worker);
  if (TraceSpan* span = job.completion->span()) {
    span->stage = stage.stage;
    span->tokens = stage.tokens;
    span->micro_batch = stage.micro_batch;
    for (const StageJobEntry& entry : stage.entries) span->entries.push_back(entry.chunk);
  }
  job.work = std::move(stage);
  parts_.workers[action.worker]->Push(std::move(job));
}

void Driver::OnMicroBatchDropped(uint64_t micro_batch) {
  CallExecutor(0, [&] { parts_.executor.DropMicroBatch(micro_batch); });
}

void Driver::OnReleasePixels(UnitRef unit) {
  CallExecutor(unit.request, [&] { parts_.executor.ReleasePixels(unit); });
}

void Driver::OnReleaseEmbedding(UnitRef unit) {
  CallExecutor(unit.request, [&] { parts_.executor.ReleaseEmbedding(unit); });
}

void Driver::OnForget(RequestId request) {
  CallExecutor(request, [&] { parts_.executor.Forget(request); });
  const auto it = records_.find(request);
  if (it == records_.end()) return;
  it->second->forgotten = true;
  Touch(*it->second);
  records_.erase(it);
}

void Driver::Touch(RequestRecord& record) {
  if (std::exchange(record.touched, true)) return;
  record.next_touched = std::exchange(touched_, &record);
}

void Driver::OnEvent(const EventAction& action) {
  const auto it = records_.find(action.request);
  if (it == records_.end() || it->second->ended) return;
  RequestRecord* const record = it->second;
  // What CheckFits and the inbox let through must not be refused later; should it be, it ends like
  // any other accepted request.
  const bool refused = action.type == EventType::kRefused;
  EventType type = refused ? EventType::kFailed : action.type;

  FirstToken first_token;
  if (type == EventType::kFirstToken) {
    record->failure = TakeFirstToken(action.request, &first_token);
    if (!record->failure.ok()) return;
  }
  absl::Status status = action.status == nullptr ? absl::OkStatus() : *action.status;
  if (type == EventType::kFinished && !record->failure.ok()) {
    type = EventType::kFailed;
    status = record->failure;
    ++failed_first_tokens_;
  }

  const bool terminal = IsTerminal(type);
  if (!terminal && record->slots.size() == 1) return;  // that one is the terminal event's
  std::list<Event> slot = TakeSlot(type, *record);
  Event& event = slot.front();
  event.item = action.item;
  if (action.item >= 0) event.item_tokens = record->item_tokens[action.item];
  event.status = std::move(status);
  event.first_token = first_token;
  event.reused_tokens = action.reused_tokens;
  if (action.times != nullptr) {
    event.times = *action.times;
    // The host's wait began with its call, not with the step that took note of it.
    event.times.submitted_ns = record->submitted_ns;
  }
  events_.splice(events_.end(), slot);
  if (terminal) {
    record->ended = true;
    Touch(*record);
  }
  if (refused) OnForget(action.request);
}

std::list<Event> Driver::TakeSlot(EventType type, RequestRecord& record) {
  std::list<Event> slot;
  slot.splice(slot.end(), record.slots, record.slots.begin());
  Event& event = slot.front();
  event.type = type;
  event.more = !IsTerminal(type);
  event.request = record.id;
  event.user_data = record.user_data;
  event.time_ns = now_ns_;
  return slot;
}

absl::Status Driver::TakeFirstToken(RequestId request, FirstToken* token) {
  absl::Status taken;
  const absl::Status guarded =
      RunGuarded("the executor", [&] { taken = parts_.executor.TakeFirstToken(request, token); });
  return guarded.ok() ? taken : guarded;
}

void Driver::CallExecutor(RequestId request, absl::FunctionRef<void()> call) {
  const absl::Status status = RunGuarded("the executor", call);
  if (!status.ok())
    parts_.logger.Write(kLogError, "request", static_cast<int64_t>(request), status);
}

}  // namespace rserve::runtime
