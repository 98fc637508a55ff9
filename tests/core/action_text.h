// Inputs and actions of the orchestrator as one line of text each: for golden traces, for the
// report of a failed random sequence, and to compare two runs byte by byte.

#ifndef RSERVE_TESTS_CORE_ACTION_TEXT_H_
#define RSERVE_TESTS_CORE_ACTION_TEXT_H_

#include <string>

#include "rserve/cc/orchestrator.h"

namespace rserve::test {

std::string PlanText(const RequestPlan& plan);
std::string ConfigText(const OrchestratorConfig& config);
std::string InputText(const Input& input);
const char* EventName(EventType type);

// Appends one line an action. Actions are named by what they do; `tokens` adds the action tokens,
// which golden traces leave out so that they can be read.
class ActionLog : public ActionSink {
 public:
  struct Options {
    bool tokens = true;
    bool blocks = true;
    bool releases = true;
    bool times = true;
    std::string indent = "    ";
  };
  ActionLog() = default;
  explicit ActionLog(Options options) : options_(std::move(options)) {}

  void OnPrepare(const PrepareAction& action) override;
  void OnEncode(const EncodeAction& action) override;
  void OnStage(const StageAction& action) override;
  void OnMicroBatchDropped(uint64_t micro_batch) override;
  void OnReleasePixels(UnitRef unit) override;
  void OnReleaseEmbedding(UnitRef unit) override;
  void OnEvent(const EventAction& event) override;
  void OnForget(RequestId request) override;

  std::string text;

 private:
  void Begin(const char* verb, ActionToken token);

  Options options_;
};

}  // namespace rserve::test

#endif  // RSERVE_TESTS_CORE_ACTION_TEXT_H_
