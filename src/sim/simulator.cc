#include "src/sim/simulator.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <queue>
#include <utility>
#include <variant>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "src/sim/shared_machine.h"

namespace rserve::sim {
namespace {

struct Event {
  TimeNs at_ns = 0;
  uint64_t sequence = 0;
  enum class Kind : int32_t { kArrival, kSubmit, kPrepared, kEncoded, kStage, kWake } kind;
  uint64_t value = 0;  // the action's token, or the request's number

  // For a heap with the earliest on top.
  friend bool operator<(const Event& a, const Event& b) {
    return a.at_ns != b.at_ns ? a.at_ns > b.at_ns : a.sequence > b.sequence;
  }
};

class Run final : public ActionSink {
 public:
  Run(const SimConfig& config, std::unique_ptr<Orchestrator> orchestrator, RequestSource& source,
      const SimOptions& options)
      : config_(config),
        cost_(config.model, config.hardware, config.calibration, config.fitted),
        orchestrator_(std::move(orchestrator)),
        source_(source),
        options_(options),
        layers_(config.layout.layers.empty()
                    ? EvenLayers(config.model.language.layers, config.layout.stages)
                    : config.layout.layers),
        at_turn_(config.policy.trigger != EncodeTrigger::kOnArrival),
        free_at_ns_(orchestrator_->config().workers.size(), 0) {
    result_.busy_ns.assign(free_at_ns_.size(), 0);
  }

  SimResult Go() {
    PullArrival();
    while (!events_.empty() || machine_.next_end_ns() != kNever) {
      if (events_.empty() || machine_.next_end_ns() <= events_.top().at_ns) {
        EndOnMachine();
        continue;
      }
      now_ns_ = events_.top().at_ns;
      while (!events_.empty() && events_.top().at_ns == now_ns_) {
        const Event event = events_.top();
        events_.pop();
        Take(event);
      }
      orchestrator_->Step(now_ns_, absl::MakeSpan(inputs_), *this);
      inputs_.clear();
      const TimeNs wake_ns = orchestrator_->next_wake_ns();
      if (wake_ns != kNever && wake_ns != wake_at_ns_) {
        wake_at_ns_ = wake_ns;
        Push(wake_ns, Event::Kind::kWake, 0);
      }
    }
    const OrchestratorStats stats = orchestrator_->stats();
    result_.peak_embedding_bytes = stats.peak_embedding_bytes;
    result_.encode_batches = stats.encode_batches;
    result_.encoded_tokens = stats.encoded_tokens;
    result_.micro_batches = stats.micro_batches;
    return std::move(result_);
  }

  void OnPrepare(const PrepareAction& action) override {
    const int64_t tokens = TokensOf(action.unit);
    Begin({SimSpan::Kind::kPrepare, -1, -1, 0, 0, tokens, action.unit.request}, action.token,
          Scaled(cost_.HostNs(tokens)));
  }

  void OnEncode(const EncodeAction& action) override {
    tokens_.clear();
    TimeNs ns = 0;
    for (const UnitRef& unit : action.units) {
      tokens_.push_back(TokensOf(unit));
      if (config_.media_lanes == 0 && !at_turn_) ns += cost_.HostNs(tokens_.back());
    }
    const bool shares = orchestrator_->config().workers[action.worker].stage >= 0;
    ns += cost_.EncodeNs(tokens_, shares ? config_.layout.ranks : 1);
    if (!shares) ns += cost_.TransferNs(action.tokens);
    Begin({SimSpan::Kind::kEncode, action.worker, -1, 0, 0, action.tokens, action.units[0].request},
          action.token, Scaled(ns));
  }

  void OnStage(const StageAction& action) override {
    chunks_.clear();
    for (const StageEntryAction& entry : action.entries) {
      ChunkWork chunk;
      chunk.tokens = entry.chunk.tokens;
      chunk.past = entry.chunk.begin;
      chunk.first = entry.chunk.begin == 0;
      chunk.last = entry.last_chunk;
      for (const EmbeddingSlice& slice : entry.embeddings) chunk.embedding_rows += slice.tokens;
      chunks_.push_back(chunk);
    }
    StageCost stage;
    stage.layers = layers_[action.stage];
    stage.ranks = config_.layout.ranks;
    stage.stage = action.stage;
    const TimeNs ns = Scaled(cost_.StageNs(stage, chunks_, config_.layout.encoders == 0));
    Begin({SimSpan::Kind::kStage, action.worker, action.stage, 0, 0, action.tokens,
           action.entries[0].chunk.request},
          action.token, ns);
  }

  void OnMicroBatchDropped(uint64_t) override {}
  void OnReleasePixels(UnitRef) override {}
  void OnReleaseEmbedding(UnitRef) override {}

  void OnEvent(const EventAction& event) override {
    if (event.type == EventType::kFirstToken) {
      const Open& open = open_.find(event.request)->second;
      RequestOutcome& outcome = result_.requests[event.request - 1];
      outcome.ttft_ns = now_ns_ - outcome.arrival_ns;
      result_.prompt_tokens += open.prompt_tokens;
      result_.end_ns = std::max(result_.end_ns, now_ns_);
      if (options_.progress && ++finished_ % 256 == 0) options_.progress(finished_);
    } else if (event.type == EventType::kRefused) {
      ++result_.failed;
      open_.erase(event.request);
    } else if (event.type == EventType::kFailed || event.type == EventType::kCancelled) {
      ++result_.failed;
    }
  }
  void OnForget(RequestId request) override { open_.erase(request); }

 private:
  struct Open {
    RequestPlan plan;  // until it is submitted
    std::vector<int64_t> unit_tokens;
    int64_t prompt_tokens = 0;
  };

  void Push(TimeNs at_ns, Event::Kind kind, uint64_t value) {
    events_.push({at_ns, ++sequence_, kind, value});
    ++result_.events;
  }

  // One arrival is known ahead, so that the requests to come take no memory.
  void PullArrival() {
    next_ = source_.Next();
    if (next_) Push(std::max(next_->arrival_ns, now_ns_), Event::Kind::kArrival, 0);
  }

  void Take(const Event& event) {
    switch (event.kind) {
      case Event::Kind::kArrival: {
        const RequestId id = result_.requests.size() + 1;
        result_.requests.push_back({next_->arrival_ns, -1});
        Open& open = open_[id];
        open.unit_tokens = UnitTokens(*next_);
        open.plan = MakePlan(*next_, id, EmbeddingBytesPerToken(config_.model.language));
        open.prompt_tokens = next_->prompt_tokens;
        result_.peak_open_requests =
            std::max(result_.peak_open_requests, static_cast<int64_t>(open_.size()));
        Push(now_ns_ + Scaled(FrontEndNs(config_, cost_, open.unit_tokens)), Event::Kind::kSubmit,
             id);
        PullArrival();
        break;
      }
      case Event::Kind::kSubmit:
        inputs_.push_back(SubmitInput{std::move(open_.find(event.value)->second.plan)});
        break;
      case Event::Kind::kPrepared:
        inputs_.push_back(PrepareFinishedInput{event.value, absl::OkStatus()});
        break;
      case Event::Kind::kEncoded:
        inputs_.push_back(EncodeFinishedInput{event.value, absl::OkStatus(), {}});
        break;
      case Event::Kind::kStage:
        inputs_.push_back(StageFinishedInput{event.value, absl::OkStatus()});
        break;
      case Event::Kind::kWake:
        break;
    }
  }

  int64_t TokensOf(UnitRef unit) const {
    return open_.find(unit.request)->second.unit_tokens[unit.unit];
  }

  TimeNs Scaled(TimeNs ns) const {
    if (now_ns_ < config_.scale_from_ns) return ns;
    return static_cast<TimeNs>(std::llround(static_cast<double>(ns) * config_.cost_scale));
  }

  // The worker is taken for `ns` as soon as it is free; returns when it is done.
  TimeNs Occupy(int32_t worker, TimeNs ns) {
    free_at_ns_[worker] = std::max(free_at_ns_[worker], now_ns_) + ns;
    result_.busy_ns[worker] += ns;
    return free_at_ns_[worker];
  }

  // Starts an action that takes `ns`, or as long as its neighbours make it take.
  void Begin(SimSpan span, uint64_t token, TimeNs ns) {
    if (config_.fitted.has_value()) {
      machine_.Start(now_ns_, token, span.worker, ns, SlowedOf(span));
      under_way_.emplace(token, span);
      return;
    }
    const TimeNs end_ns = span.worker < 0 ? now_ns_ + ns : Occupy(span.worker, ns);
    End(span, token, end_ns - ns, end_ns, end_ns);
  }

  void End(SimSpan span, uint64_t token, TimeNs begin_ns, TimeNs end_ns, TimeNs known_ns) {
    constexpr Event::Kind kEnds[] = {Event::Kind::kPrepared, Event::Kind::kEncoded,
                                     Event::Kind::kStage};
    Push(known_ns, kEnds[static_cast<size_t>(span.kind)], token);
    if (!options_.spans) return;
    span.begin_ns = begin_ns;
    span.end_ns = end_ns;
    result_.spans.push_back(span);
  }

  void EndOnMachine() {
    const TimeNs end_ns = machine_.next_end_ns();
    const SharedMachine::Action ended = machine_.EndNext();
    const auto it = under_way_.find(ended.token);
    if (ended.worker >= 0) result_.busy_ns[ended.worker] += end_ns - ended.begin_ns;
    End(it->second, ended.token, ended.begin_ns, end_ns,
        end_ns + std::llround(config_.fitted->decision_ns));
    under_way_.erase(it);
  }

  SlowedBy SlowedOf(const SimSpan& span) const {
    const FittedCosts& costs = *config_.fitted;
    if (span.kind == SimSpan::Kind::kPrepare) return costs.prepare_slowed;
    if (span.kind == SimSpan::Kind::kEncode) return costs.encode_slowed;
    return costs.stages[static_cast<size_t>(span.stage)].slowed;
  }

  const SimConfig& config_;
  const CostModel cost_;
  const std::unique_ptr<Orchestrator> orchestrator_;
  RequestSource& source_;
  const SimOptions& options_;
  const std::vector<int64_t> layers_;
  const bool at_turn_;                                // encoded where and when the first chunk runs
  std::vector<TimeNs> free_at_ns_;                    // by worker
  SharedMachine machine_;                             // with fitted costs ...
  absl::flat_hash_map<uint64_t, SimSpan> under_way_;  // ... by token
  std::priority_queue<Event> events_;
  uint64_t sequence_ = 0;
  TimeNs now_ns_ = 0;
  TimeNs wake_at_ns_ = kNever;
  std::optional<SimRequest> next_;
  std::vector<Input> inputs_;
  absl::flat_hash_map<RequestId, Open> open_;
  int64_t finished_ = 0;
  SimResult result_;
  std::vector<int64_t> tokens_;    // scratch
  std::vector<ChunkWork> chunks_;  // scratch
};

absl::Status Check(const SimConfig& config) {
  const Layout& layout = config.layout;
  if (!layout.layers.empty()) {
    int64_t sum = 0;
    for (int64_t layers : layout.layers) sum += layers;
    if (static_cast<int32_t>(layout.layers.size()) != layout.stages ||
        sum != config.model.language.layers ||
        *std::min_element(layout.layers.begin(), layout.layers.end()) < 1) {
      return absl::InvalidArgumentError(absl::StrCat(
          "layers: want ", layout.stages, " numbers of at least 1 whose sum is the model's ",
          config.model.language.layers, "; they are ", layout.layers.size(), " with sum ", sum));
    }
  } else if (layout.stages > config.model.language.layers) {
    return absl::InvalidArgumentError(absl::StrCat("layout has ", layout.stages,
                                                   " stages; the model has ",
                                                   config.model.language.layers, " layers"));
  }
  return absl::OkStatus();
}

}  // namespace

TimeNs FrontEndNs(const SimConfig& config, const CostModel& cost,
                  absl::Span<const int64_t> unit_tokens) {
  TimeNs ns = cost.FrontEndNs();
  if (config.policy.trigger == EncodeTrigger::kOnArrival || config.fitted.has_value()) return ns;
  for (int64_t tokens : unit_tokens) ns += cost.HostNs(tokens);
  return ns;
}

OrchestratorConfig MakeOrchestratorConfig(const SimConfig& config) {
  OrchestratorConfig out;
  out.policy = config.policy;
  const bool own = config.layout.encoders > 0;
  out.workers = SchemePlacement(own ? Scheme::kRserve : Scheme::kColocated, config.layout.stages,
                                config.layout.encoders);
  for (WorkerSpec& worker : out.workers) {
    worker.first = config.first;
    worker.max_passes = config.max_passes;
  }
  out.prepare_lanes = config.media_lanes;
  out.max_micro_batches = config.max_micro_batches;
  out.budgets.embedding_bytes = config.embedding_bytes;
  // Without a limit few large blocks do: 2^28 tokens are more than any number of open requests.
  out.budgets.kv_block_tokens = config.kv_tokens > 0 ? 16 : 1024;
  out.budgets.kv_blocks = 1 << 18;
  if (config.kv_tokens > 0) {
    out.budgets.kv_blocks =
        static_cast<int32_t>(std::clamp<int64_t>(config.kv_tokens / 16, 1, 1 << 24));
  }
  return out;
}

absl::StatusOr<SimResult> Simulate(const SimConfig& config, RequestSource& source,
                                   const SimOptions& options) {
  if (absl::Status status = Check(config); !status.ok()) return status;
  auto orchestrator = Orchestrator::Create(MakeOrchestratorConfig(config));
  if (!orchestrator.ok()) return orchestrator.status();
  return Run(config, *std::move(orchestrator), source, options).Go();
}

}  // namespace rserve::sim
