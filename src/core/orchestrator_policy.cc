// Order, B and C: what follows the load, from rates learned from completions.

#include <algorithm>

#include "src/core/orchestrator_impl.h"

namespace rserve {
namespace {

// Sizes and rates are bounded (rates.h), their products here need not be.
int64_t Ratio(int64_t a, int64_t b, int64_t divisor) {
  const absl::int128 value = absl::int128(a) * b / std::max<int64_t>(divisor, 1);
  return value > (int64_t{1} << 60) ? int64_t{1} << 60 : static_cast<int64_t>(value);
}

}  // namespace

void Orchestrator::Impl::Learn(const Flight& flight) {
  const TimeNs took_ns = now_ns_ - flight.begin_ns;
  if (flight.kind == Flight::Kind::kEncode) {
    int64_t tokens = 0;
    for (const UnitRef& unit : flight.units) {
      tokens += Find(unit.request)->plan.units[unit.unit].tokens;
    }
    rates_.EncodeTook(tokens, took_ns);
  } else if (flight.kind == Flight::Kind::kStage) {
    auto batch = micro_batches_.find(flight.micro_batch);
    if (batch == micro_batches_.end()) return;
    rates_.StageTook(workers_[flight.worker].spec.stage, batch->second.tokens, took_ns, now_ns_);
  }
}

// ---- Order
// ----------------------------------------------------------------------------------------

TimeNs Orchestrator::Impl::WorkLeftNs(const Request& r) const {
  const int64_t tokens = r.plan.prompt_tokens - tracker_.Scheduled(r.plan.id);
  return rates_.slowest_stage().PerTokens(tokens) + rates_.encode().PerTokens(r.encode_tokens);
}

void Orchestrator::Impl::UpdateOrder(Request& r) {
  if (!UsesOrder() || r.ended) return;
  const Policy& policy = config_.policy;
  const RequestId id = r.plan.id;
  const TimeNs work_ns = WorkLeftNs(r);
  if (policy.order == Order::kFeasibleFirst && !r.hopeless) {
    const TimeNs least_ns =
        work_ns + rates_.TailNs(std::min<int64_t>(r.plan.prompt_tokens, policy.min_token_budget));
    const TimeNs from_ns = r.times.submitted_ns + policy.slo_ns - std::min(least_ns, policy.slo_ns);
    if (from_ns != r.hopeless_from_ns) {
      if (r.hopeless_from_ns != kNever) slo_checks_.erase({r.hopeless_from_ns, r.arrival, id});
      slo_checks_.insert({from_ns, r.arrival, id});
      r.hopeless_from_ns = from_ns;
    }
  }
  // Among those that can meet the SLO it is the SLO that bounds a wait, so size counts for more.
  const int64_t stretch =
      policy.order == Order::kFeasibleFirst ? 4 * policy.order_stretch : policy.order_stretch;
  const TimeNs later_ns = r.hopeless ? policy.hopeless_guard_ns
                                     : std::min(Ratio(work_ns, stretch, 1), policy.order_guard_ns);
  const TimeNs due_ns = r.times.submitted_ns + later_ns;
  tokens_.SetDue(id, due_ns);
  // Under a whole-request gate places are given in order of arrival, so encoding keeps to it: one
  // that is placed must not wait behind one that cannot be.
  if (policy.gate == Gate::kStreaming) encoder_.SetDue(id, due_ns);
}

void Orchestrator::Impl::ExpireHopes() {
  while (!slo_checks_.empty() && std::get<0>(*slo_checks_.begin()) < now_ns_) {
    Request& r = *Find(std::get<2>(*slo_checks_.begin()));
    slo_checks_.erase(slo_checks_.begin());
    r.hopeless_from_ns = kNever;
    r.hopeless = true;
    UpdateOrder(r);
  }
}

// ---- B and C
// --------------------------------------------------------------------------------------

void Orchestrator::Impl::ChooseTokenBudget() {
  const Policy& policy = config_.policy;
  const LinearFit& stage = rates_.slowest_stage();
  if (!policy.square_root_budget || !stage.known()) return;
  int64_t budget = policy.token_budget;
  if (stage.per_token_q10() > 0) {
    const int64_t load = rates_.load_q10();
    const int64_t steady = Ratio(rates_.mean_prompt_tokens(), 1024, 1024 - load);
    const int64_t tokens = Ratio(std::max(prefill_backlog_, steady), 1024 + load, 1024);
    // One stage alone has nothing to fill, but a request that is due sooner waits for the
    // micro-batch that runs: half of it on average.
    const int64_t after = std::max(2 * (num_stages_ - 1), 1);
    budget =
        IntegerSqrt(Ratio(Ratio(2 * tokens, stage.fixed_ns(), after), 1024, stage.per_token_q10()));
  }
  const int64_t most = std::min(policy.token_budget, int64_t{1} << 30);
  budget = std::clamp(budget, std::min(policy.min_token_budget, most), most);
  if (const RequestId front = alone_ ? tokens_.Front() : 0; front != 0) {
    // Nothing runs beside a part of a prompt, so it is cut into equal parts of at least that size.
    const int64_t prompt = tokens_.Remaining(front);
    const int64_t parts = std::max<int64_t>(prompt / budget, 1);
    budget = std::min(std::max(budget, (prompt - 1) / parts + 1), most);
  }
  MoveTokenBudget(budget);
}

void Orchestrator::Impl::MoveTokenBudget(int64_t budget) {
  // One stage alone has none that micro-batches of unlike sizes could leave idle between them.
  if (num_stages_ == 1) {
    tokens_.set_budget_tokens(budget);
    return;
  }
  if (budget_moves_ == 0 || budget_moved_after_ != last_micro_batch_) {
    constexpr int64_t kMemory = 64;
    budget_moves_ = std::min(budget_moves_ + 1, kMemory);
    budget_q10_ += (1024 * budget - budget_q10_) / budget_moves_;
    budget_moved_after_ = last_micro_batch_;
  }
  tokens_.set_budget_tokens(budget_q10_ / 1024);
}

// One worker takes request after request: nothing runs beside a part of one's pictures, so they go
// together. Only a request that is due sooner waits for a batch, half of it on average, so large
// ones are cut as B cuts a prompt there.
void Orchestrator::Impl::ChooseEncodeBatchAlone(const Request& front) {
  const LinearFit& encode = rates_.encode();
  const int64_t square =
      Ratio(Ratio(2 * front.encode_tokens, encode.fixed_ns(), 1), 1024, encode.per_token_q10());
  const int64_t least = std::max(IntegerSqrt(square), config_.policy.encode_batch_tokens);
  encoder_.set_batch_tokens(std::clamp<int64_t>(front.encode_tokens, 1, least));
  // A picture that is being prepared is waited for as long as a batch of its own would cost: what
  // is fixed, of a batch that says nothing of it an eighth; the first of all waits like
  // `colocated`.
  if (config_.policy.encode_flush_ns != kNever) return;
  const TimeNs fixed_ns = encode.known() ? encode.fixed_ns() : encode.mean_ns() / 8;
  encoder_.set_flush_ns(encode.mean_ns() > 0 ? fixed_ns : kNever);
}

void Orchestrator::Impl::ChooseEncodeBatch() {
  if (!config_.policy.adaptive_encode_batch) return;
  if (alone_) {
    if (const RequestId front = encoder_.Front(); front != 0) ChooseEncodeBatchAlone(*Find(front));
    return;
  }
  const LinearFit& encode = rates_.encode();
  const LinearFit& stage = rates_.slowest_stage();
  if (!encode.known() || stage.per_token_q10() <= 0) return;
  const bool encoder_slower = encode.PerTokens(encode_backlog_) > stage.PerTokens(prefill_backlog_);
  const int64_t requests = std::max<int64_t>(stats_.open_requests, 1);
  const int64_t waiting = encoder_slower ? encode_backlog_ : encode_backlog_ / requests;
  const int64_t square = Ratio(Ratio(waiting, encode.fixed_ns(), 1), 1024, stage.per_token_q10());
  encoder_.set_batch_tokens(std::max<int64_t>(IntegerSqrt(square), 1));
}

}  // namespace rserve
