#include "tools/rserve/bench_targets.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "src/runtime/timed_executor.h"

namespace rserve::tool {
namespace {

// Owns its engine, unlike ModelTarget alone.
class OwnedModelTarget final : public ModelTarget {
 public:
  OwnedModelTarget(std::unique_ptr<ModelEngine> engine,
                   std::shared_ptr<const SyntheticRequests> requests)
      : ModelTarget(engine.get(), requests->requests),
        requests_(std::move(requests)),
        engine_(std::move(engine)) {}

 private:
  const std::shared_ptr<const SyntheticRequests> requests_;  // outlives the engine
  const std::unique_ptr<ModelEngine> engine_;
};

class TimedTarget final : public Target {
 public:
  TimedTarget(std::unique_ptr<Engine> engine, std::string topology, std::vector<RequestPlan> plans)
      : topology_(std::move(topology)), plans_(std::move(plans)), engine_(std::move(engine)) {}

  absl::StatusOr<RequestId> Submit(size_t index) override {
    RequestPlan plan = plans_[index];
    plan.id = engine_->NewRequestId();
    const RequestId id = plan.id;
    if (absl::Status status = engine_->Submit(std::move(plan), 0); !status.ok()) return status;
    return id;
  }
  int64_t Poll(int64_t capacity, std::vector<Event>* events) override {
    return engine_->Poll(capacity, events);
  }
  int wait_fd() const override { return engine_->wait_fd(); }
  TimeNs next_deadline_ns() const override { return engine_->next_deadline_ns(); }
  OrchestratorStats stats() const override { return engine_->stats(); }
  std::string topology() const override { return topology_; }

 private:
  const std::string topology_;
  const std::vector<RequestPlan> plans_;
  const std::unique_ptr<Engine> engine_;
};

OrchestratorConfig TimedConfig(const EngineCase& engine_case, const EngineFlags& flags) {
  const bool adaptive = engine_case.scheme == Scheme::kAdaptive;
  OrchestratorConfig config;
  config.workers = SchemePlacement(
      engine_case.scheme, engine_case.topology.stages,
      adaptive ? engine_case.topology.encoders : std::max(engine_case.topology.encoders, 1));
  config.policy = SchemePolicy(engine_case.scheme);
  config.policy.encode_batch_tokens = engine_case.encode_batch;
  config.policy.token_budget = engine_case.token_budget;
  config.policy.encode_across_requests |= flags.encode_across_requests;
  if (adaptive) {
    config.max_micro_batches = AdaptiveMicroBatches(config.workers);
    config.policy.adaptive_encode_batch = !engine_case.encode_batch_chosen;
  }
  if (flags.encode_flush_ms >= 0) {
    config.policy.encode_flush_ns = static_cast<TimeNs>(flags.encode_flush_ms * 1e6);
  }
  config.policy.one_chunk_in_flight = flags.one_chunk_in_flight;
  if (flags.embedding_bytes > 0) config.budgets.embedding_bytes = flags.embedding_bytes;
  if (flags.encoder_batch_tokens > 0) {
    config.budgets.encoder_batch_tokens = flags.encoder_batch_tokens;
  }
  return config;
}

}  // namespace

OpenTarget OpenModelTargets(std::string model, EngineFlags flags,
                            std::shared_ptr<const SyntheticRequests> requests) {
  return [model = std::move(model), flags, requests = std::move(requests)](
             const EngineCase& engine_case,
             TraceSink trace) -> absl::StatusOr<std::unique_ptr<Target>> {
    absl::StatusOr<ModelEngineOptions> options = MakeEngineOptions(model, engine_case, flags);
    if (!options.ok()) return options.status();
    options->trace = std::move(trace);
    options->queue_requests = static_cast<int64_t>(requests->requests.size());
    options->input_bytes = INT64_MAX;
    absl::StatusOr<std::unique_ptr<ModelEngine>> engine = OpenEngine(*std::move(options));
    if (!engine.ok()) return engine.status();
    return std::make_unique<OwnedModelTarget>(*std::move(engine), requests);
  };
}

OpenTarget OpenTimedTargets(TimedCosts costs, EngineFlags flags, std::vector<RequestPlan> plans) {
  return [costs, flags = std::move(flags), plans = std::move(plans)](
             const EngineCase& engine_case,
             TraceSink trace) -> absl::StatusOr<std::unique_ptr<Target>> {
    EngineOptions options;
    options.core = TimedConfig(engine_case, flags);
    options.trace = std::move(trace);
    std::string topology = TopologyName(options.core.workers);
    runtime::TimedExecutorOptions times;
    times.duration_ns = [costs, budget = static_cast<double>(engine_case.token_budget)](
                            const runtime::TimedAction& action) -> TimeNs {
      double ms = 0;
      if (action.kind == TraceSpan::Kind::kEncode) {
        ms = costs.encode_ms_per_item * static_cast<double>(action.units.size());
      } else if (action.kind == TraceSpan::Kind::kStage) {
        ms = std::max(costs.stage_ms_fixed,
                      costs.stage_ms_per_chunk * static_cast<double>(action.tokens) / budget);
      }
      return static_cast<TimeNs>(ms * 1e6);
    };
    absl::StatusOr<std::unique_ptr<Engine>> engine =
        Engine::Create(std::move(options), std::make_unique<runtime::TimedExecutor>(times));
    if (!engine.ok()) return engine.status();
    return std::make_unique<TimedTarget>(*std::move(engine), std::move(topology), plans);
  };
}

}  // namespace rserve::tool
