// The way in: accepting or refusing a request.

#include <utility>

#include "absl/strings/str_cat.h"
#include "src/core/orchestrator_impl.h"

namespace rserve {

void Orchestrator::Impl::Apply(SubmitInput& input) {
  RequestPlan& plan = input.plan;
  absl::Status status = refuse_;
  if (status.ok() && requests_.contains(plan.id)) {
    status = absl::AlreadyExistsError(absl::StrCat("request id ", plan.id, " is in use"));
  }
  if (status.ok()) status = CheckFits(plan);
  if (status.ok() && !plan.units.empty() && EncodersLeft() == 0) {
    status = absl::UnavailableError("every encoder is lost; only text can be served");
  }
  if (status.ok() && stats_.open_requests >= config_.budgets.queue_requests) {
    status = absl::ResourceExhaustedError(
        absl::StrCat("the queue holds ", stats_.open_requests,
                     " requests; queue_requests = ", config_.budgets.queue_requests));
  }
  if (status.ok() && plan.input_bytes > config_.budgets.input_bytes - stats_.input_bytes) {
    status = absl::ResourceExhaustedError(
        absl::StrCat("the request holds ", plan.input_bytes, " input bytes and open requests hold ",
                     stats_.input_bytes, "; input_bytes = ", config_.budgets.input_bytes));
  }
  if (!status.ok()) {
    ++stats_.refused;
    EventAction event;
    event.type = EventType::kRefused;
    event.request = plan.id;
    event.status = &status;
    sink_->OnEvent(event);
    return;
  }

  auto owned = std::make_unique<Request>();
  Request& r = *owned;
  r.plan = std::move(plan);
  const RequestId id = r.plan.id;
  r.arrival = next_arrival_++;
  r.layout = BuildUnitLayout(r.plan);
  r.units.resize(r.plan.units.size());
  r.item_units_to_encode.assign(static_cast<size_t>(r.plan.num_items), 0);
  for (const UnitPlan& unit : r.plan.units) {
    ++r.item_units_to_encode[unit.item];
    r.encode_tokens += unit.tokens;
  }
  r.item_units_with_input = r.item_units_to_encode;
  r.item_input_released.assign(static_cast<size_t>(r.plan.num_items), false);
  r.units_to_encode = static_cast<int64_t>(r.plan.units.size());
  r.times.submitted_ns = now_ns_;
  // Here, not at its entry: forming a micro-batch should allocate as little as can be.
  r.kv_blocks.reserve(static_cast<size_t>(KvNeed(r)));
  requests_.emplace(id, std::move(owned));
  ++stats_.accepted;
  ++stats_.open_requests;
  stats_.input_bytes += r.plan.input_bytes;
  // CheckFits has validated the plan and the id is new, so this cannot fail.
  tracker_.Add(r.plan).IgnoreError();
  tokens_.Add(id, r.arrival, r.plan.prompt_tokens);
  HoldReusable(r, r.plan.prompt_tokens - 1);
  WaitForKv(r);
  Emit(EventType::kAccepted, r);
  if (r.reused_tokens > 0) SkipReused(r, r.reused_tokens);
  AwaitKv(r);

  places_.Add(id, &r.layout);
  QueueForEncode(r);
  if (r.plan.deadline_ns != kNever) deadlines_.insert({r.plan.deadline_ns, r.arrival, id});
  UpdateSchedulable(r);
  const int64_t tokens = tokens_.Remaining(id);
  rates_.RequestCame(tokens);
  prefill_backlog_ += tokens;
  encode_backlog_ += r.encode_tokens;
  UpdateOrder(r);
}

void Orchestrator::Impl::QueueForEncode(Request& r) {
  if (r.layout.prompt_order.empty()) return;
  std::vector<int64_t> tokens;
  tokens.reserve(r.layout.prompt_order.size());
  for (int32_t unit : r.layout.prompt_order) tokens.push_back(r.plan.units[unit].tokens);
  encoder_.Add(r.plan.id, r.arrival, r.layout.prompt_order, tokens);
}

}  // namespace rserve
