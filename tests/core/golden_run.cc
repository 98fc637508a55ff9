// Runs a scenario: every worker executes its actions one after the other, each for its cost.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/core/action_text.h"
#include "tests/core/golden_scenario.h"

namespace rserve::test {
namespace {

struct Running {
  TimeNs begin = 0, end = 0;
  int32_t worker = -1;
  std::string text;   // of its completion
  std::string marks;  // one character a token, for the timeline
  Input done;
};

class Runner : public ActionSink {
 public:
  explicit Runner(const Scenario& scenario)
      : scenario_(scenario), free_at_(scenario.config.workers.size(), 0) {
    rows_.resize(free_at_.size());
  }

  absl::StatusOr<std::string> Run() {
    auto orchestrator = Orchestrator::Create(scenario_.config);
    if (!orchestrator.ok()) return orchestrator.status();
    log_.text = absl::StrCat(scenario_.title, "\n");
    size_t next = 0;
    for (int32_t steps = 0;; ++steps) {
      if (steps > 10000) return absl::InternalError("the scenario does not end");
      TimeNs at = next < scenario_.inputs.size() ? scenario_.inputs[next].at : kNever;
      for (const Running& action : running_) at = std::min(at, action.end);
      at = std::min(at, (*orchestrator)->next_wake_ns());
      if (at == kNever) break;
      now_ = at;
      absl::StrAppend(&log_.text, "t=", now_, "\n");
      std::vector<Input> inputs;
      // In the order of issue, then what comes from outside.
      for (size_t i = 0; i < running_.size();) {
        if (running_[i].end > now_) {
          ++i;
          continue;
        }
        absl::StrAppend(&log_.text, "  > ", running_[i].text, "\n");
        inputs.push_back(std::move(running_[i].done));
        running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(i));
      }
      for (; next < scenario_.inputs.size() && scenario_.inputs[next].at == now_; ++next) {
        absl::StrAppend(&log_.text, "  > ", InputText(scenario_.inputs[next].input), "\n");
        inputs.push_back(scenario_.inputs[next].input);
      }
      (*orchestrator)->Step(now_, absl::MakeSpan(inputs), *this);
    }
    if (!(*orchestrator)->idle()) return absl::InternalError("the orchestrator is not at rest");
    Timeline();
    return std::move(log_.text);
  }

  void OnPrepare(const PrepareAction& action) override {
    log_.OnPrepare(action);
    const TimeNs cost = scenario_.prepare.base;
    running_.push_back(
        {now_, now_ + cost, -1,
         absl::StrCat("prepare-finished r", action.unit.request, ".u", action.unit.unit), "",
         PrepareFinishedInput{action.token, absl::OkStatus()}});
  }

  void OnEncode(const EncodeAction& action) override {
    log_.OnEncode(action);
    const auto failure = scenario_.encode_failures.find(++encodes_);
    const absl::Status status =
        failure == scenario_.encode_failures.end() ? absl::OkStatus() : failure->second;
    std::string marks;
    for (const UnitRef unit : action.units) marks += static_cast<char>('A' + unit.request - 1);
    Start(action.worker, scenario_.encode, action.tokens,
          absl::StrCat("encode-finished w", action.worker, status.ok() ? "" : " ",
                       status.ok() ? "" : status.ToString()),
          std::move(marks), EncodeFinishedInput{action.token, status, {}});
  }

  void OnStage(const StageAction& action) override {
    log_.OnStage(action);
    std::string marks;
    for (const StageEntryAction& entry : action.entries) {
      marks.append(static_cast<size_t>(entry.chunk.tokens),
                   static_cast<char>('0' + entry.chunk.request % 10));
    }
    Start(action.worker, scenario_.stage, action.tokens,
          absl::StrCat("stage-finished w", action.worker, " s", action.stage, " mb",
                       action.micro_batch),
          std::move(marks), StageFinishedInput{action.token, absl::OkStatus()});
  }

  void OnMicroBatchDropped(uint64_t micro_batch) override { log_.OnMicroBatchDropped(micro_batch); }
  void OnReleasePixels(UnitRef unit) override { log_.OnReleasePixels(unit); }
  void OnReleaseEmbedding(UnitRef unit) override { log_.OnReleaseEmbedding(unit); }
  void OnEvent(const EventAction& event) override { log_.OnEvent(event); }
  void OnForget(RequestId request) override { log_.OnForget(request); }

 private:
  void Start(int32_t worker, const ScenarioCost& cost, int64_t tokens, std::string text,
             std::string marks, Input done) {
    const TimeNs begin = std::max(now_, free_at_[worker]);
    const TimeNs end = begin + cost.base + cost.per_token * tokens;
    free_at_[worker] = end;
    std::string& row = rows_[worker];
    row.resize(static_cast<size_t>(begin), '.');
    for (TimeNs t = begin; t < end; ++t) {
      row +=
          marks[static_cast<size_t>(t - begin) * marks.size() / static_cast<size_t>(end - begin)];
    }
    running_.push_back({begin, end, worker, std::move(text), std::move(marks), std::move(done)});
  }

  void Timeline() {
    size_t width = 0;
    for (const std::string& row : rows_) width = std::max(width, row.size());
    absl::StrAppend(&log_.text, "\ntimeline: a letter is an encode (A: request 1), a digit a ",
                    "prefill, one column a tick\n");
    std::string ruler;
    for (size_t t = 0; t < width; t += 10) {
      std::string mark = absl::StrCat(t);
      mark.resize(std::min<size_t>(10, width - t), ' ');
      ruler += mark;
    }
    absl::StrAppend(&log_.text, "      ", ruler, "\n");
    for (size_t w = 0; w < rows_.size(); ++w) {
      const WorkerSpec& spec = scenario_.config.workers[w];
      std::string name =
          absl::StrCat("w", w, " ", spec.stage >= 0 ? "S" : "",
                       spec.stage >= 0 ? absl::StrCat(spec.stage) : "", spec.encoder ? "E" : "");
      name.resize(6, ' ');
      rows_[w].resize(width, '.');
      absl::StrAppend(&log_.text, name, rows_[w], "\n");
    }
  }

  const Scenario& scenario_;
  TimeNs now_ = 0;
  int64_t encodes_ = 0;
  std::vector<TimeNs> free_at_;
  std::vector<std::string> rows_;
  std::vector<Running> running_;
  ActionLog log_{ActionLog::Options{.tokens = false, .blocks = false, .times = false}};
};

}  // namespace

absl::StatusOr<std::string> RunScenario(const Scenario& scenario) { return Runner(scenario).Run(); }

}  // namespace rserve::test
