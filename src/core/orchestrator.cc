#include "rserve/cc/orchestrator.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/core/orchestrator_impl.h"

namespace rserve {
namespace {

absl::Status Invalid(const std::string& what) { return absl::InvalidArgumentError(what); }

absl::Status CheckAtLeast(const char* option, int64_t value, int64_t least) {
  if (value >= least) return absl::OkStatus();
  return Invalid(absl::StrCat(option, " is ", value, "; it must be at least ", least));
}

int32_t CountStages(const OrchestratorConfig& config) {
  int32_t stages = 0;
  for (const WorkerSpec& worker : config.workers) stages += worker.stage >= 0 ? 1 : 0;
  return stages;
}

absl::Status CheckWorkers(const OrchestratorConfig& config) {
  const int32_t stages = CountStages(config);
  if (stages == 0) return Invalid("workers: none hosts a stage");
  std::vector<bool> seen(static_cast<size_t>(stages), false);
  for (size_t w = 0; w < config.workers.size(); ++w) {
    const WorkerSpec& worker = config.workers[w];
    if (worker.depth < 1) return Invalid(absl::StrCat("workers[", w, "].depth is ", worker.depth));
    if (worker.max_passes < 1) {
      return Invalid(absl::StrCat("workers[", w, "].max_passes is ", worker.max_passes));
    }
    if (worker.stage < 0 && !worker.encoder) {
      return Invalid(absl::StrCat("workers[", w, "] hosts neither an encoder nor a stage"));
    }
    if (worker.stage < 0) continue;
    if (worker.stage >= stages || seen[static_cast<size_t>(worker.stage)]) {
      return Invalid(absl::StrCat("workers[", w, "].stage is ", worker.stage, "; the stages of ",
                                  stages, " workers are 0 to ", stages - 1, ", each once"));
    }
    seen[static_cast<size_t>(worker.stage)] = true;
    if (worker.stage == 0 && !worker.encoder &&
        config.policy.trigger != EncodeTrigger::kOnArrival) {
      return Invalid(absl::StrCat("policy.trigger is ", static_cast<int32_t>(config.policy.trigger),
                                  "; encoding at a request's turn needs the encoder on stage 0's "
                                  "worker, workers[",
                                  w, "]"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckConfig(const OrchestratorConfig& config) {
  if (absl::Status s = CheckWorkers(config); !s.ok()) return s;
  const Budgets& b = config.budgets;
  const Policy& p = config.policy;
  const struct {
    const char* option;
    int64_t value;
    int64_t least;
  } limits[] = {
      {"policy.encode_batch_tokens", p.encode_batch_tokens, 1},
      {"policy.token_budget", p.token_budget, 1},
      {"policy.encode_flush_ns", p.encode_flush_ns, 0},
      {"policy.min_token_budget", p.min_token_budget, 1},
      {"policy.order_stretch", p.order_stretch, 0},
      {"policy.order_guard_ns", p.order_guard_ns, 0},
      {"policy.slo_ns", p.slo_ns, p.order == Order::kFeasibleFirst ? 1 : 0},
      {"policy.hopeless_guard_ns", p.hopeless_guard_ns, p.order_guard_ns},
      {"budgets.embedding_bytes", b.embedding_bytes, 0},
      {"budgets.pixel_bytes", b.pixel_bytes, 0},
      {"budgets.units_in_flight", b.units_in_flight, 0},
      {"budgets.encoder_batch_tokens", b.encoder_batch_tokens, 1},
      {"budgets.kv_blocks", b.kv_blocks, 1},
      {"budgets.kv_block_tokens", b.kv_block_tokens, 1},
      {"budgets.queue_requests", b.queue_requests, 1},
      {"budgets.input_bytes", b.input_bytes, 0},
      {"prepare_lanes", config.prepare_lanes, 0},
      {"max_micro_batches", config.max_micro_batches, 0},
      {"max_encode_attempts", config.max_encode_attempts, 1},
  };
  for (const auto& limit : limits) {
    if (absl::Status s = CheckAtLeast(limit.option, limit.value, limit.least); !s.ok()) return s;
  }
  if (p.order_stretch > 1000) {
    return Invalid(
        absl::StrCat("policy.order_stretch is ", p.order_stretch, "; it must be at most 1000"));
  }
  if (p.order != Order::kArrival && p.trigger != EncodeTrigger::kOnArrival) {
    return Invalid(absl::StrCat("policy.order is ", static_cast<int32_t>(p.order),
                                "; an order other than by arrival needs policy.trigger "
                                "kOnArrival"));
  }
  if (p.trigger == EncodeTrigger::kOnFirstChunk && p.gate != Gate::kWholeRequest) {
    return Invalid(
        "policy.trigger kOnFirstChunk encodes whole requests; it needs policy.gate "
        "kWholeRequest");
  }
  if (p.trigger == EncodeTrigger::kOnChunk && p.gate != Gate::kStreaming) {
    return Invalid("policy.trigger kOnChunk encodes unit by unit; it needs policy.gate kStreaming");
  }
  return absl::OkStatus();
}

bool IsAlone(const OrchestratorConfig& config) {
  const Policy& policy = config.policy;
  return config.workers.size() == 1 && config.workers[0].encoder && policy.adaptive_encode_batch &&
         policy.gate == Gate::kStreaming && policy.trigger == EncodeTrigger::kOnArrival;
}

EncoderSchedulerOptions EncoderOptions(const OrchestratorConfig& config) {
  EncoderSchedulerOptions options;
  options.batch_tokens = config.policy.encode_batch_tokens;
  options.max_batch_tokens = config.budgets.encoder_batch_tokens;
  options.across_requests = config.policy.encode_across_requests;
  options.prepare = config.prepare_lanes > 0;
  options.flush_ns = config.policy.encode_flush_ns;
  return options;
}

TokenSchedulerOptions TokenOptions(const OrchestratorConfig& config) {
  TokenSchedulerOptions options;
  options.budget_tokens = config.policy.token_budget;
  options.sharing = config.policy.sharing;
  options.one_chunk_in_flight = config.policy.one_chunk_in_flight;
  return options;
}

int32_t MaxMicroBatches(const OrchestratorConfig& config) {
  if (config.max_micro_batches > 0) return config.max_micro_batches;
  int32_t sum = 0;
  for (const WorkerSpec& worker : config.workers) sum += worker.stage >= 0 ? worker.depth : 0;
  return sum;
}

absl::Status TooLarge(const char* what, int64_t size, const char* option, int64_t limit) {
  return absl::ResourceExhaustedError(
      absl::StrCat(what, " ", size, ", more than ", option, " = ", limit, " can ever hold"));
}

}  // namespace

Orchestrator::Impl::Impl(const OrchestratorConfig& config)
    : config_(config),
      num_stages_(CountStages(config)),
      max_micro_batches_(MaxMicroBatches(config)),
      encoder_(EncoderOptions(config)),
      tokens_(TokenOptions(config)),
      kv_(config.budgets.kv_blocks, config.budgets.kv_block_tokens),
      places_({config.budgets.embedding_bytes, config.budgets.pixel_bytes,
               config.budgets.units_in_flight}),
      stages_(static_cast<size_t>(num_stages_)),
      rates_(num_stages_) {
  for (size_t w = 0; w < config.workers.size(); ++w) {
    Worker worker;
    worker.spec = config.workers[w];
    workers_.push_back(worker);
    has_encoder_ = has_encoder_ || worker.spec.encoder;
    if (worker.spec.stage >= 0) stages_[worker.spec.stage].worker = static_cast<int32_t>(w);
  }
  if (config.policy.square_root_budget) {
    const int64_t most = std::min(config.policy.token_budget, int64_t{1} << 30);
    const int64_t least = std::min(config.policy.min_token_budget, most);
    tokens_.set_budget_tokens(std::max<int64_t>(IntegerSqrt(least * most), 1));
  }
  alone_ = IsAlone(config);
}

absl::Status Orchestrator::Impl::CheckFits(const RequestPlan& plan) const {
  if (absl::Status s = ValidatePlan(plan); !s.ok()) return s;
  const Budgets& b = config_.budgets;
  if (plan.last_reader_stage >= num_stages_) {
    return Invalid(absl::StrCat("last_reader_stage is ", plan.last_reader_stage, "; there are ",
                                num_stages_, " stages"));
  }
  if (!plan.units.empty() && !has_encoder_) {
    return Invalid(absl::StrCat("the request has ", plan.num_items,
                                " items to encode, but no worker hosts an encoder"));
  }
  const int64_t blocks = kv_.BlocksFor(plan.prompt_tokens + plan.max_new_tokens);
  if (blocks > b.kv_blocks) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the prompt of ", plan.prompt_tokens, " tokens and ", plan.max_new_tokens,
                     " new ones need ", blocks, " KV blocks of ", b.kv_block_tokens,
                     " tokens, more than kv_blocks = ", b.kv_blocks, " can ever hold"));
  }
  if (static_cast<int64_t>(plan.kv_block_keys.size()) > plan.prompt_tokens / b.kv_block_tokens) {
    return Invalid(absl::StrCat("kv_block_keys has ", plan.kv_block_keys.size(),
                                " keys; the prompt of ", plan.prompt_tokens, " tokens fills ",
                                plan.prompt_tokens / b.kv_block_tokens, " KV blocks of ",
                                b.kv_block_tokens, " tokens"));
  }
  if (plan.input_bytes > b.input_bytes) {
    return TooLarge("the request holds input bytes of", plan.input_bytes, "input_bytes",
                    b.input_bytes);
  }
  for (const UnitPlan& unit : plan.units) {
    if (unit.tokens > b.encoder_batch_tokens) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "item ", unit.item, " has a unit of ", unit.tokens,
          " tokens, more than encoder_batch_tokens = ", b.encoder_batch_tokens, " can ever hold"));
    }
  }
  if (plan.units.empty()) return absl::OkStatus();
  const UnitLayout layout = BuildUnitLayout(plan);
  const bool whole = config_.policy.gate == Gate::kWholeRequest;
  // What it must hold at once: under a whole-request gate everything.
  const Amounts need = whole ? layout.total : layout.floor[0];
  if (need.embedding_bytes > b.embedding_bytes) {
    return TooLarge(whole ? "all items of the request (whole-request gate) have embedding bytes of"
                          : "the request must hold embedding bytes at once of",
                    need.embedding_bytes, "embedding_bytes", b.embedding_bytes);
  }
  if (layout.floor[0].pixel_bytes > b.pixel_bytes) {
    return TooLarge("the largest item has pixel bytes of", layout.floor[0].pixel_bytes,
                    "pixel_bytes", b.pixel_bytes);
  }
  if (need.units > b.units_in_flight) {
    return TooLarge("the request must hold units at once, in number", need.units, "units_in_flight",
                    b.units_in_flight);
  }
  if (layout.largest_atomic > config_.policy.token_budget) {
    return TooLarge("the longest atomic span has tokens,", layout.largest_atomic, "token_budget",
                    config_.policy.token_budget);
  }
  return absl::OkStatus();
}

void Orchestrator::Impl::Step(TimeNs now_ns, absl::Span<Input> inputs, ActionSink& sink) {
  now_ns_ = std::max(now_ns_, now_ns);
  sink_ = &sink;
  for (Input& input : inputs) {
    std::visit([this](auto& in) { Apply(in); }, input);
  }
  ExpireDeadlines();
  ExpireHopes();
  Dispatch();
  sink_ = nullptr;
}

TimeNs Orchestrator::Impl::next_wake_ns() const {
  const TimeNs deadline = deadlines_.empty() ? kNever : std::get<0>(*deadlines_.begin());
  // A flush matters to an encoder with a free slot only; a busy one wakes us by finishing.
  const bool free_encoder = std::any_of(workers_.begin(), workers_.end(), [](const Worker& worker) {
    return worker.spec.encoder && !worker.lost && worker.in_flight < worker.spec.depth;
  });
  return free_encoder ? std::min(deadline, encoder_.next_flush_ns()) : deadline;
}

OrchestratorStats Orchestrator::Impl::stats() const {
  OrchestratorStats s = stats_;
  s.lingering_requests = static_cast<int64_t>(requests_.size()) - s.open_requests;
  s.embedding_bytes = tracker_.live_bytes();
  s.peak_embedding_bytes = tracker_.peak_bytes();
  s.pixel_bytes = places_.used().pixel_bytes;
  s.peak_pixel_bytes = places_.peak().pixel_bytes;
  s.units_in_flight = places_.used().units;
  s.kv_blocks_used = kv_.used_blocks();
  s.peak_kv_blocks_used = kv_.peak_used_blocks();
  s.kv_blocks_cached = kv_.cached_blocks();
  s.kv_evictions = kv_.evictions();
  return s;
}

absl::StatusOr<std::unique_ptr<Orchestrator>> Orchestrator::Create(
    const OrchestratorConfig& config) {
  if (absl::Status s = CheckConfig(config); !s.ok()) return s;
  return std::unique_ptr<Orchestrator>(new Orchestrator(std::make_unique<Impl>(config)));
}

Orchestrator::Orchestrator(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Orchestrator::~Orchestrator() = default;

absl::Status Orchestrator::CheckFits(const RequestPlan& plan) const {
  return impl_->CheckFits(plan);
}
void Orchestrator::Step(TimeNs now_ns, absl::Span<Input> inputs, ActionSink& sink) {
  impl_->Step(now_ns, inputs, sink);
}
TimeNs Orchestrator::next_wake_ns() const { return impl_->next_wake_ns(); }
bool Orchestrator::idle() const { return impl_->idle(); }
OrchestratorStats Orchestrator::stats() const { return impl_->stats(); }
const OrchestratorConfig& Orchestrator::config() const { return impl_->config(); }

}  // namespace rserve
