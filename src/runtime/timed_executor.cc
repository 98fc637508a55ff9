#include "src/runtime/timed_executor.h"

#include <utility>

namespace rserve::runtime {

TimedExecutor::TimedExecutor(TimedExecutorOptions options, std::shared_ptr<Clock> clock)
    : options_(std::move(options)),
      clock_(clock != nullptr ? std::move(clock) : std::make_shared<SystemClock>()) {}

FirstToken TimedExecutor::FirstTokenOf(RequestId request) {
  // The finalizer of SplitMix64: ids that follow each other give tokens that do not.
  uint64_t x = request + 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  FirstToken token;
  token.token = static_cast<int32_t>((x ^ (x >> 31)) >> 33);
  token.logprob = 0;
  return token;
}

absl::Status TimedExecutor::Execute(const TimedAction& action) {
  const TimeNs begin_ns = clock_->Now();
  if (options_.duration_ns) clock_->SleepUntil(begin_ns + options_.duration_ns(action));
  return options_.outcome ? options_.outcome(action) : absl::OkStatus();
}

absl::Status TimedExecutor::Prepare(UnitRef unit) {
  TimedAction action;
  action.kind = TraceSpan::Kind::kPrepare;
  action.units = absl::MakeConstSpan(&unit, 1);
  return Execute(action);
}

void TimedExecutor::Encode(EncodeJob job, Done done) {
  TimedAction action;
  action.kind = TraceSpan::Kind::kEncode;
  action.worker = job.worker;
  action.tokens = job.tokens;
  action.units = job.units;
  std::move(done)(Execute(action));
}

void TimedExecutor::Forward(StageJob job, Done done) {
  TimedAction action;
  action.kind = TraceSpan::Kind::kStage;
  action.worker = job.worker;
  action.stage = job.stage;
  action.tokens = job.tokens;
  action.micro_batch = job.micro_batch;
  action.entries = job.entries;
  std::move(done)(Execute(action));
}

absl::Status TimedExecutor::TakeFirstToken(RequestId request, FirstToken* out) {
  if (options_.first_token_outcome) {
    if (absl::Status status = options_.first_token_outcome(request); !status.ok()) return status;
  }
  *out = FirstTokenOf(request);
  return absl::OkStatus();
}

// There are no buffers behind its actions.
void TimedExecutor::DropMicroBatch(uint64_t) {}
void TimedExecutor::ReleasePixels(UnitRef) {}
void TimedExecutor::ReleaseEmbedding(UnitRef) {}
void TimedExecutor::Forget(RequestId) {}

}  // namespace rserve::runtime
