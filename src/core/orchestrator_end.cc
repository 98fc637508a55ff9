// The way out: ending requests, and giving back what they held once no token touches it.

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "src/core/orchestrator_impl.h"

namespace rserve {

Orchestrator::Impl::Request* Orchestrator::Impl::Find(RequestId id) {
  auto it = requests_.find(id);
  return it == requests_.end() ? nullptr : it->second.get();
}

void Orchestrator::Impl::Emit(EventType type, const Request& r, int32_t item) {
  EventAction event;
  event.type = type;
  event.request = r.plan.id;
  event.item = item;
  event.reused_tokens = r.reused_tokens;
  if (IsTerminal(type)) event.status = &r.terminal_status;
  if (IsTerminal(type) || type == EventType::kFirstToken) event.times = &r.times;
  sink_->OnEvent(event);
}

void Orchestrator::Impl::Apply(CancelInput& input) {
  Request* r = Find(input.request);
  if (r == nullptr || r->ended) return;
  End(*r, EventType::kCancelled, absl::CancelledError("cancelled by the caller"));
}

void Orchestrator::Impl::Apply(DrainInput&) {
  if (refuse_.ok()) refuse_ = absl::FailedPreconditionError("the engine is draining");
}

void Orchestrator::Impl::Apply(AbortInput&) {
  refuse_ = absl::FailedPreconditionError("the engine was aborted");
  EndAll(EventType::kCancelled, absl::CancelledError("the engine was aborted"), false);
}

void Orchestrator::Impl::ExpireDeadlines() {
  while (!deadlines_.empty() && std::get<0>(*deadlines_.begin()) <= now_ns_) {
    Request& r = *Find(std::get<2>(*deadlines_.begin()));
    const RequestId id = r.plan.id;
    const char* phase = "waiting for prefill";
    if (tracker_.Scheduled(id) > 0) {
      phase = "in prefill";
    } else if (r.encodes_out > 0) {
      phase = "in encode";
    } else if (r.units_to_encode > 0) {
      phase = "waiting for encode";
    }
    End(r, EventType::kFailed,
        absl::DeadlineExceededError(absl::StrCat("the deadline passed while the request was ",
                                                 phase, ", ", tracker_.Committed(id), " of ",
                                                 r.plan.prompt_tokens, " tokens prefilled")));
  }
}

std::vector<RequestId> Orchestrator::Impl::OpenByArrival() const {
  std::vector<std::pair<uint64_t, RequestId>> open;
  for (const auto& [id, r] : requests_) {
    if (!r->ended) open.push_back({r->arrival, id});
  }
  std::sort(open.begin(), open.end());
  std::vector<RequestId> ids;
  ids.reserve(open.size());
  for (const auto& [arrival, id] : open) ids.push_back(id);
  return ids;
}

void Orchestrator::Impl::EndAll(EventType terminal, const absl::Status& status,
                                bool only_with_encodes_left) {
  for (RequestId id : OpenByArrival()) {
    Request& r = *Find(id);
    if (only_with_encodes_left && r.units_to_encode == 0) continue;
    End(r, terminal, status);
  }
}

void Orchestrator::Impl::End(Request& r, EventType terminal, absl::Status status) {
  const RequestId id = r.plan.id;
  r.ended = true;
  r.terminal = terminal;
  r.terminal_status = std::move(status);
  if (r.plan.deadline_ns != kNever) deadlines_.erase({r.plan.deadline_ns, r.arrival, id});
  if (r.hopeless_from_ns != kNever) slo_checks_.erase({r.hopeless_from_ns, r.arrival, id});
  prefill_backlog_ -= r.plan.prompt_tokens - tracker_.Scheduled(id);
  encode_backlog_ -= r.encode_tokens;
  encoder_.Remove(id);
  tokens_.Remove(id);
  places_.StopPlacing(id);
  EndWaitForKv(r);
  EndAwaitKv(r);
  for (auto it = awaited_.lower_bound({id, 0}); it != awaited_.end() && it->request == id;) {
    it = awaited_.erase(it);
  }
  Settle(r);
}

void Orchestrator::Impl::ReleaseInputOfUnit(Request& r, int32_t unit) {
  const int32_t item = r.plan.units[unit].item;
  if (--r.item_units_with_input[item] == 0) ReleaseInput(r, item);
}

void Orchestrator::Impl::ReleaseInput(Request& r, int32_t item) {
  r.item_input_released[item] = true;
  Emit(EventType::kInputReleased, r, item);
}

void Orchestrator::Impl::ReleasePixels(Request& r, int32_t unit) {
  UnitProgress& u = r.units[unit];
  if (!u.pixels_held) return;
  u.pixels_held = false;
  places_.ReleasePixels(r.plan.id, r.plan.units[unit].pixel_bytes);
  sink_->OnReleasePixels({r.plan.id, unit});
}

void Orchestrator::Impl::ReleaseEmbedding(Request& r, int32_t unit) {
  const UnitRef ref{r.plan.id, unit};
  if (!tracker_.IsReserved(ref)) return;
  tracker_.Release(ref);
  places_.ReleaseEmbedding(r.plan.id, r.plan.units[unit].embedding_bytes);
  sink_->OnReleaseEmbedding(ref);
}

void Orchestrator::Impl::Settle(Request& r) {
  const RequestId id = r.plan.id;
  // The host's own memory is read by preparations, or by the encoder where there are none; only
  // then does the terminal event wait, since it promises that the host may reuse that memory.
  int32_t input_readers = config_.prepare_lanes > 0 ? r.prepares_out : r.encodes_out;
  if (!r.plan.input_borrowed) input_readers = 0;
  if (!r.terminal_sent && input_readers == 0) {
    for (int32_t item = 0; item < r.plan.num_items; ++item) {
      if (!r.item_input_released[item]) ReleaseInput(r, item);
    }
    r.terminal_sent = true;
    --stats_.open_requests;
    stats_.input_bytes -= r.plan.input_bytes;
    stats_.finished += r.terminal == EventType::kFinished ? 1 : 0;
    stats_.failed += r.terminal == EventType::kFailed ? 1 : 0;
    stats_.cancelled += r.terminal == EventType::kCancelled ? 1 : 0;
    Emit(r.terminal, r);
  }
  for (size_t u = 0; u < r.units.size(); ++u) {
    if (r.units[u].preparing || r.units[u].encoding) continue;
    ReleasePixels(r, static_cast<int32_t>(u));
    if (r.micro_batches_out == 0) ReleaseEmbedding(r, static_cast<int32_t>(u));
  }
  if (r.micro_batches_out == 0) {
    if (!r.has_kv) kv_.EndHold(r.kv_blocks);
    kv_.Free(&r.kv_blocks);
    r.has_kv = false;
  }
  if (r.terminal_sent && r.prepares_out == 0 && r.encodes_out == 0 && r.micro_batches_out == 0) {
    tracker_.Remove(id);
    places_.Remove(id);
    sink_->OnForget(id);
    requests_.erase(id);
  }
}

}  // namespace rserve
