#include "tests/core/random_sequence.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/core/action_text.h"
#include "tests/core/random_config.h"
#include "tests/core/random_prefix.h"
#include "tests/core/shadow_model.h"

namespace rserve::test {
namespace {

// Hands every action to the model and, as text, to a log.
class LoggingModel : public ShadowModel {
 public:
  LoggingModel(const OrchestratorConfig& config, Coverage* coverage, bool enabled)
      : ShadowModel(config, coverage), enabled_(enabled) {}

  void OnPrepare(const PrepareAction& action) override {
    if (enabled_) log.OnPrepare(action);
    ShadowModel::OnPrepare(action);
  }
  void OnEncode(const EncodeAction& action) override {
    if (enabled_) log.OnEncode(action);
    ShadowModel::OnEncode(action);
  }
  void OnStage(const StageAction& action) override {
    if (enabled_) log.OnStage(action);
    ShadowModel::OnStage(action);
  }
  void OnMicroBatchDropped(uint64_t micro_batch) override {
    if (enabled_) log.OnMicroBatchDropped(micro_batch);
    ShadowModel::OnMicroBatchDropped(micro_batch);
  }
  void OnReleasePixels(UnitRef unit) override {
    if (enabled_) log.OnReleasePixels(unit);
    ShadowModel::OnReleasePixels(unit);
  }
  void OnReleaseEmbedding(UnitRef unit) override {
    if (enabled_) log.OnReleaseEmbedding(unit);
    ShadowModel::OnReleaseEmbedding(unit);
  }
  void OnEvent(const EventAction& event) override {
    if (enabled_) log.OnEvent(event);
    ShadowModel::OnEvent(event);
  }
  void OnForget(RequestId request) override {
    if (enabled_) log.OnForget(request);
    ShadowModel::OnForget(request);
  }

  ActionLog log;

 private:
  const bool enabled_;
};

// How this sequence treats the orchestrator.
struct Mood {
  int32_t main_inputs = 0;
  int64_t max_open = 4;
  int32_t submit_percent = 20;
  int32_t fail_percent = 0;  // of completions
  int32_t cancel_percent = 0;
  int32_t noise_percent = 0;  // stale tokens, unknown ids, malformed plans
  int32_t batch_percent = 0;  // a further input in the same step
  int32_t end = 0;            // 1: drain, 2: abort, 3: a worker is lost, at `end_at`
  int64_t end_at = 0;
  TimeNs max_tick = 3;
  bool reuse_ids = false;
  bool started = false;
  bool lazy_prefill = false;  // stages finish late, so that states pile up before them
  bool lazy_encode = false;
  int32_t reuse_percent = 0;  // requests with keys of their KV blocks
};

Mood RandomMood(Rng& rng) {
  Mood mood;
  mood.main_inputs = static_cast<int32_t>(rng.In(60, 180));
  mood.max_open = rng.In(1, 9);
  mood.submit_percent = static_cast<int32_t>(rng.In(5, 30));
  mood.fail_percent = static_cast<int32_t>(rng.Pick({0, 0, 0, 3, 15}));
  mood.cancel_percent = static_cast<int32_t>(rng.Pick({0, 0, 2, 8}));
  mood.noise_percent = static_cast<int32_t>(rng.Pick({0, 0, 5}));
  mood.batch_percent = static_cast<int32_t>(rng.Pick({0, 30, 60}));
  mood.end = static_cast<int32_t>(rng.Pick({0, 0, 0, 0, 0, 1, 2, 3}));
  mood.end_at = rng.In(10, mood.main_inputs);
  mood.max_tick = rng.Pick<TimeNs>({0, 1, 4});
  mood.reuse_ids = rng.Percent(30);
  mood.started = rng.Percent(10);
  mood.lazy_prefill = rng.Percent(20);
  mood.lazy_encode = rng.Percent(20);
  return mood;
}

class Sequence {
 public:
  Sequence(uint64_t seed, const SequenceOptions& options, Coverage* coverage)
      : options_(options), rng_(seed * 0x2545f4914f6cdd1dull + 1), setup_(RandomSetupFor(rng_)) {
    for (const WorkerSpec& worker : setup_.config.workers) {
      stages_ = std::max(stages_, worker.stage + 1);
    }
    coverage_ = coverage;
    mood_ = RandomMood(rng_);
    // From numbers of its own: what a seed gives without it stays.
    prefix_rng_ = rng_;
    prefix_rng_.Next();
    mood_.reuse_percent = static_cast<int32_t>(prefix_rng_.Pick({0, 0, 50, 90}));
    model_ = std::make_unique<LoggingModel>(setup_.config, coverage, options.log || options.replay);
  }

  SequenceResult Run() {
    if (setup_.orchestrator == nullptr) {
      result_.violation = "Create refused " + ConfigText(setup_.config);
      return std::move(result_);
    }
    if (options_.log) model_->log.text = ConfigText(setup_.config) + "\n";
    const size_t head = model_->log.text.size();
    while (ok_ && result_.inputs < mood_.main_inputs) {
      RandomStep();
      const bool over = model_->draining() || model_->worker_lost();
      if (over && model_->open_requests() == 0 && rng_.Percent(10)) break;
    }
    Rest();
    if (ok_ && options_.replay) {
      Replay(absl::string_view(model_->log.text).substr(head));
    }
    result_.violation = ok_ ? extra_violation_ : model_->violation();
    if (options_.log) result_.log = std::move(model_->log.text);
    return std::move(result_);
  }

 private:
  struct Recorded {
    TimeNs now_ns;
    std::vector<Input> inputs;
  };

  void Step(std::vector<Input> inputs) {
    result_.inputs += static_cast<int64_t>(inputs.size());
    result_.steps += 1;
    if (options_.log) {
      absl::StrAppend(&model_->log.text, "t=", now_ns_, "\n");
      for (const Input& input : inputs) {
        absl::StrAppend(&model_->log.text, "  > ", InputText(input), "\n");
      }
    }
    if (options_.replay) recorded_.push_back({now_ns_, inputs});
    ok_ = model_->Step(*setup_.orchestrator, now_ns_, inputs);
    picked_.clear();
    step_ids_.clear();
  }

  void RandomStep() {
    now_ns_ += rng_.In(0, mood_.max_tick);
    std::vector<Input> inputs;
    if (mood_.end != 0 && result_.inputs >= mood_.end_at) {
      inputs.push_back(EndInput());
      mood_.end = 0;
      return Step(std::move(inputs));
    }
    if (mood_.noise_percent > 0 && rng_.Percent(1) && !model_->requests().empty()) {
      inputs.push_back(DuplicateSubmit());  // alone: see ShadowModel::ApplySubmit
      return Step(std::move(inputs));
    }
    do {
      AddInput(&inputs);
    } while (rng_.Percent(mood_.batch_percent) && inputs.size() < 6);
    Step(std::move(inputs));
  }

  void AddInput(std::vector<Input>* inputs) {
    if (rng_.Percent(mood_.noise_percent)) return inputs->push_back(Noise());
    if (rng_.Percent(mood_.cancel_percent)) return inputs->push_back(Cancel());
    const bool room = model_->open_requests() < mood_.max_open || rng_.Percent(3);
    if ((room && rng_.Percent(mood_.submit_percent)) || !AddCompletion(inputs)) {
      inputs->push_back(Submit());
    }
  }

  RequestId NextId() {
    if (mood_.reuse_ids) {
      for (int32_t i = 0; i < 3; ++i) {
        const RequestId id = static_cast<RequestId>(rng_.In(1, 12));
        const bool in_step = std::find(step_ids_.begin(), step_ids_.end(), id) != step_ids_.end();
        if (model_->Find(id) == nullptr && !in_step) {
          const bool used = std::find(used_ids_.begin(), used_ids_.end(), id) != used_ids_.end();
          if (used && coverage_ != nullptr) coverage_->Hit(Reached::kIdReused);
          if (!used) used_ids_.push_back(id);
          step_ids_.push_back(id);
          return id;
        }
      }
    }
    return next_id_++;
  }

  Input Submit() {
    const RequestId id = NextId();
    RequestPlan plan = RandomPlan(rng_, setup_.traits, id, stages_, now_ns_);
    for (int32_t i = 0; i < 5 && !setup_.orchestrator->CheckFits(plan).ok(); ++i) {
      plan = RandomPlan(rng_, setup_.traits, id, stages_, now_ns_);  // mostly one that can run
    }
    if (mood_.reuse_percent > 0 && prefix_rng_.Percent(mood_.reuse_percent)) {
      RequestPlan reusable =
          prefix_.Apply(prefix_rng_, setup_.config.budgets.kv_block_tokens, plan);
      if (setup_.orchestrator->CheckFits(reusable).ok()) plan = std::move(reusable);
    }
    if (rng_.Percent(mood_.noise_percent)) Malform(rng_, &plan);
    return SubmitInput{std::move(plan)};
  }

  Input DuplicateSubmit() {
    const auto& requests = model_->requests();
    const RequestId id = requests[rng_.In(0, static_cast<int64_t>(requests.size()) - 1)]->id();
    return SubmitInput{RandomPlan(rng_, setup_.traits, id, stages_, now_ns_)};
  }

  Input Cancel() {
    const auto& requests = model_->requests();
    if (requests.empty() || rng_.Percent(5)) {
      Hit(Reached::kCancelUnknown);
      return CancelInput{static_cast<RequestId>(rng_.In(100000, 100010))};
    }
    const ShadowRequest& request = *requests[rng_.In(0, static_cast<int64_t>(requests.size()) - 1)];
    Hit(request.ended ? Reached::kCancelLingering
                      : static_cast<Reached>(static_cast<int32_t>(Reached::kCancelQueued) +
                                             model_->Phase(request)));
    return CancelInput{request.id()};
  }

  Input Noise() {
    const ActionToken unknown = static_cast<ActionToken>(rng_.In(1000000, 1000100));
    switch (rng_.In(0, 7)) {
      case 0:
        return PrepareFinishedInput{unknown, absl::OkStatus()};
      case 1:
        return EncodeFinishedInput{unknown, absl::InternalError("noise"), {}};
      case 2:
        return StageFinishedInput{unknown, absl::OkStatus()};
      case 3:
        return EncodeFinishedInput{0, absl::OkStatus(), {absl::OkStatus()}};
      case 4:
        return WorkerLostInput{static_cast<int32_t>(rng_.Pick({-1, 99})),
                               absl::UnavailableError("noise")};
      case 5:  // a token that has been finished before
        return StageFinishedInput{done_.empty() ? unknown : done_.back(), absl::OkStatus()};
      case 6:
        return PrepareFinishedInput{done_.empty() ? unknown : done_.front(),
                                    absl::InternalError("noise")};
      default:  // a token that is out, but of another kind
        for (const OutAction& action : model_->out()) {
          if (action.kind == TokenKind::kStage) {
            return EncodeFinishedInput{action.token, absl::OkStatus(), {}};
          }
          return StageFinishedInput{action.token, absl::InternalError("noise")};
        }
        return CancelInput{0};
    }
  }

  Input EndInput() {
    if (mood_.end == 1) return DrainInput{};
    if (mood_.end == 2) return AbortInput{};
    const int64_t workers = static_cast<int64_t>(setup_.config.workers.size());
    return WorkerLostInput{static_cast<int32_t>(rng_.In(0, workers - 1)),
                           absl::UnavailableError("lost")};
  }

  absl::Status Outcome(int32_t fail_percent) {
    if (!rng_.Percent(fail_percent)) return absl::OkStatus();
    return rng_.Percent(50) ? absl::UnavailableError("worker is busy")
                            : absl::InternalError("computation failed");
  }

  bool Picked(ActionToken token) const {
    return std::find(picked_.begin(), picked_.end(), token) != picked_.end();
  }

  // Finishes one action: any worker, its oldest; or any preparation.
  bool AddCompletion(std::vector<Input>* inputs) {
    candidates_.clear();
    workers_seen_.assign(setup_.config.workers.size(), false);
    for (const OutAction& action : model_->out()) {
      if (action.worker >= 0 && Picked(action.token)) continue;
      if (action.worker >= 0 && workers_seen_[action.worker]) continue;
      if (action.worker >= 0) workers_seen_[action.worker] = true;
      if (Picked(action.token)) continue;
      const bool lazy = (action.kind == TokenKind::kStage && mood_.lazy_prefill) ||
                        (action.kind != TokenKind::kStage && mood_.lazy_encode);
      if (lazy && rng_.Percent(80)) continue;
      candidates_.push_back(&action);
    }
    if (candidates_.empty()) return false;
    const OutAction& action =
        *candidates_[rng_.In(0, static_cast<int64_t>(candidates_.size()) - 1)];
    if (mood_.started && rng_.Percent(30)) inputs->push_back(StartedInput{action.token});
    picked_.push_back(action.token);
    done_.push_back(action.token);
    inputs->push_back(Completion(action, mood_.fail_percent));
    return true;
  }

  Input Completion(const OutAction& action, int32_t fail_percent) {
    switch (action.kind) {
      case TokenKind::kPrepare:
        return PrepareFinishedInput{action.token, Outcome(fail_percent / 2)};
      case TokenKind::kStage:
        return StageFinishedInput{action.token, Outcome(fail_percent / 2)};
      case TokenKind::kEncode:
        break;
    }
    EncodeFinishedInput input{action.token, Outcome(fail_percent), {}};
    if (rng_.Percent(30) || (fail_percent > 0 && rng_.Percent(50))) {
      for (size_t i = 0; i < action.units.size(); ++i) {
        input.unit_status.push_back(Outcome(fail_percent));
      }
    }
    return input;
  }

  // Finishes what is out until nothing is.
  void FinishAll() {
    int64_t bound = 200;
    for (const auto& request : model_->requests()) {
      bound += 20 * (request->shape.plan().prompt_tokens + request->shape.num_units() + 1);
    }
    for (int64_t i = 0; ok_ && i < bound && !model_->out().empty(); ++i) {
      std::vector<Input> inputs;
      do {
        AddCompletion(&inputs);
      } while (rng_.Percent(30));
      Step(std::move(inputs));
    }
    if (ok_) Step({});
  }

  // No block may be lost to reuse: a request that needs all of them still runs.
  void TakeWholePool() {
    const Budgets& budgets = setup_.config.budgets;
    RequestPlan plan;
    plan.id = next_id_++;
    plan.prompt_tokens = int64_t{budgets.kv_blocks} * budgets.kv_block_tokens - 1;
    const bool short_enough = plan.prompt_tokens <= 100 * setup_.config.policy.token_budget;
    if (plan.prompt_tokens < 1 || !short_enough || model_->draining() || model_->worker_lost()) {
      return;
    }
    Step({SubmitInput{plan}});
    FinishAll();
  }

  // Finishes all that is out, without failures, and requires that the orchestrator comes to rest.
  // Time stands still, so that no deadline can hide a stall.
  void Rest() {
    mood_.lazy_prefill = mood_.lazy_encode = mood_.started = false;
    mood_.fail_percent = 0;
    FinishAll();
    if (ok_ && mood_.reuse_percent > 0) TakeWholePool();
    if (!ok_) return;
    const OrchestratorStats stats = setup_.orchestrator->stats();
    if (!setup_.orchestrator->idle() || model_->known_requests() > 0 || !model_->out().empty()) {
      extra_violation_ = absl::StrCat("invariant 6: not at rest: ", model_->known_requests(),
                                      " requests are left");
    } else if (stats.embedding_bytes != 0 || stats.pixel_bytes != 0 || stats.units_in_flight != 0 ||
               stats.kv_blocks_used != 0 || stats.input_bytes != 0) {
      extra_violation_ =
          absl::StrCat("invariant 4: at rest with ", stats.embedding_bytes, " embedding bytes, ",
                       stats.pixel_bytes, " pixel bytes, ", stats.units_in_flight, " units, ",
                       stats.kv_blocks_used, " KV blocks, ", stats.input_bytes, " input bytes");
    }
  }

  void Replay(absl::string_view first) {
    // Abseil's tables iterate by the pages they lie on. The ballast uses up what the heap would
    // hand out again, so that the second orchestrator's tables lie elsewhere.
    std::vector<std::unique_ptr<char[]>> ballast;
    for (size_t i = 0; i < 512; ++i) {
      ballast.push_back(std::make_unique<char[]>(16 + i % 64 * 16));
    }
    auto again = Orchestrator::Create(setup_.config);
    ActionLog log;
    for (Recorded& step : recorded_) {
      if (options_.log) {
        absl::StrAppend(&log.text, "t=", step.now_ns, "\n");
        for (const Input& input : step.inputs) {
          absl::StrAppend(&log.text, "  > ", InputText(input), "\n");
        }
      }
      (*again)->Step(step.now_ns, absl::MakeSpan(step.inputs), log);
    }
    if (log.text == first) return;
    size_t at = 0;
    while (at < first.size() && at < log.text.size() && first[at] == log.text[at]) ++at;
    const size_t line = first.substr(0, at).rfind('\n') + 1;
    extra_violation_ = absl::StrCat("invariant 7: the same inputs gave other actions: ",
                                    first.substr(line, first.find('\n', at) - line), " | ",
                                    log.text.substr(line, log.text.find('\n', at) - line));
  }

  void Hit(Reached what) {
    if (coverage_ != nullptr) coverage_->Hit(what);
  }

  const SequenceOptions options_;
  Rng rng_;
  Rng prefix_rng_{0};
  RandomPrefix prefix_;
  RandomSetup setup_;
  Coverage* coverage_ = nullptr;
  Mood mood_;
  std::unique_ptr<LoggingModel> model_;
  int32_t stages_ = 1;
  TimeNs now_ns_ = 1000;
  RequestId next_id_ = 1000;
  std::vector<RequestId> used_ids_, step_ids_;
  std::vector<ActionToken> picked_, done_;
  std::vector<const OutAction*> candidates_;
  std::vector<bool> workers_seen_;
  std::vector<Recorded> recorded_;
  bool ok_ = true;
  std::string extra_violation_;
  SequenceResult result_;
};

}  // namespace

SequenceResult RunSequence(uint64_t seed, const SequenceOptions& options, Coverage* coverage) {
  return Sequence(seed, options, coverage).Run();
}

}  // namespace rserve::test
