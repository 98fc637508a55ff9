// TimedExecutor: an executor of known durations. It computes nothing: each action takes as long as
// a function of its size says, and the worker's thread waits that long. With it the whole engine
// (threads, queues, wakeups) can be measured and tested against times that are known beforehand,
// for example PP4+E1 with 20 ms a chunk.

#ifndef RSERVE_SRC_RUNTIME_TIMED_EXECUTOR_H_
#define RSERVE_SRC_RUNTIME_TIMED_EXECUTOR_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "rserve/cc/engine.h"
#include "rserve/cc/executor.h"
#include "src/runtime/clock.h"

namespace rserve::runtime {

// An action as its duration and its outcome may depend on it. The spans are valid during the call
// only.
struct TimedAction {
  TraceSpan::Kind kind = TraceSpan::Kind::kPrepare;
  int32_t worker = -1;
  int32_t stage = -1;
  int64_t tokens = 0;  // 0 for kPrepare
  uint64_t micro_batch = 0;
  absl::Span<const UnitRef> units;          // kPrepare, kEncode
  absl::Span<const StageJobEntry> entries;  // kStage
};

// The functions are called on the threads of the actions, several at a time.
struct TimedExecutorOptions {
  // How long the action takes; empty or negative: no time.
  std::function<TimeNs(const TimedAction&)> duration_ns;
  // How the action ends, asked when its time has passed; empty: well.
  std::function<absl::Status(const TimedAction&)> outcome;
  // How TakeFirstToken ends; empty: well.
  std::function<absl::Status(RequestId)> first_token_outcome;
};

class TimedExecutor final : public Executor {
 public:
  // A null clock is the system's.
  explicit TimedExecutor(TimedExecutorOptions options, std::shared_ptr<Clock> clock = nullptr);

  // The first token of each request: a function of its id alone, in [0, 2^31).
  static FirstToken FirstTokenOf(RequestId request);

  absl::Status Prepare(UnitRef unit) override;
  void Encode(EncodeJob job, Done done) override;
  void Forward(StageJob job, Done done) override;
  void DropMicroBatch(uint64_t micro_batch) override;
  void ReleasePixels(UnitRef unit) override;
  void ReleaseEmbedding(UnitRef unit) override;
  absl::Status TakeFirstToken(RequestId request, FirstToken* out) override;
  void Forget(RequestId request) override;

 private:
  absl::Status Execute(const TimedAction& action);

  const TimedExecutorOptions options_;
  const std::shared_ptr<Clock> clock_;
};

}  // namespace rserve::runtime

#endif  // RSERVE_SRC_RUNTIME_TIMED_EXECUTOR_H_
