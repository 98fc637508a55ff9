// Driver: the loop of the one thread that owns the orchestrator. It takes what other threads left
// in the inbox, steps the orchestrator, and carries out the actions: jobs to workers and media
// threads, calls to the executor, events to the host.
//
// Order within a round: jobs go out while the orchestrator steps (workers start at once), then
// ended requests give back their share of the limits and the statistics are published, then the
// events become visible, then the trace is written. So whoever polled a terminal event finds the
// limits and the counts up to date, and may use a forgotten id again.
//
// If a round fails for want of memory the orchestrator's state is not to be trusted any more: the
// engine fails. Submits are refused, the driver only waits for what executors still hold, and then
// every open request ends with a failure (its event was allocated when it was submitted). Not
// before: a terminal event gives the host its memory back, which a preparation may still read.

#ifndef RSERVE_SRC_RUNTIME_DRIVER_H_
#define RSERVE_SRC_RUNTIME_DRIVER_H_

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "rserve/cc/engine.h"
#include "rserve/cc/orchestrator.h"
#include "src/runtime/event_queue.h"
#include "src/runtime/inbox.h"
#include "src/runtime/logger.h"
#include "src/runtime/media_pool.h"
#include "src/runtime/worker.h"

namespace rserve::runtime {

class Driver final : private ActionSink {
 public:
  // What the driver works with; all of it outlives the driver.
  struct Parts {
    Orchestrator& orchestrator;
    Executor& executor;
    std::shared_ptr<Inbox> inbox;
    EventQueue& events;
    const std::vector<std::unique_ptr<Worker>>& workers;
    MediaPool& media;
    const Logger& logger;
    const std::function<void(const TraceSpan&)>& trace;
  };

  explicit Driver(const Parts& parts);

  // The body of the driver thread. Returns after Inbox::Stop, once no request is left and no
  // executor holds an action.
  void Run();

  // A round has failed (see above). Once Run has returned.
  bool failed() const { return !failure_.ok(); }

  OrchestratorStats stats() const;  // as of the last round [any-thread]

 private:
  void OnPrepare(const PrepareAction& action) override;
  void OnEncode(const EncodeAction& action) override;
  void OnStage(const StageAction& action) override;
  void OnMicroBatchDropped(uint64_t micro_batch) override;
  void OnReleasePixels(UnitRef unit) override;
  void OnReleaseEmbedding(UnitRef unit) override;
  void OnEvent(const EventAction& event) override;
  void OnForget(RequestId request) override;

  void Advance(std::list<InboxItem>& items);
  void Fail(const absl::Status& why);
  void EndAll();
  void PublishStats();
  void Trace(const std::list<InboxItem>& items);

  std::shared_ptr<Completion> NewCompletion(Input finished, TraceSpan::Kind kind, int32_t worker);
  // Takes the request's next slot, with everything filled in that all events have.
  std::list<Event> TakeSlot(EventType type, RequestRecord& record);
  // Has the inbox settle the record at the end of the round.
  void Touch(RequestRecord& record);
  absl::Status TakeFirstToken(RequestId request, FirstToken* token);
  // Calls the executor; what it throws is logged.
  void CallExecutor(RequestId request, absl::FunctionRef<void()> call);

  const Parts parts_;
  TimeNs now_ns_ = 0;                                       // of this round
  std::vector<Input> batch_;                                // the inputs of a step; never grows
  std::list<Event> events_;                                 // made in this round
  absl::flat_hash_map<RequestId, RequestRecord*> records_;  // from the submit to OnForget
  RequestRecord* touched_ = nullptr;                        // in this round
  int64_t actions_out_ = 0;                                 // issued and not finished
  int64_t failed_first_tokens_ = 0;
  absl::Status failure_;  // not OK: a round has failed
  bool ended_ = false;    // failed, and every request has its terminal event

  mutable std::mutex stats_mu_;
  OrchestratorStats stats_;  // guarded by stats_mu_
};

}  // namespace rserve::runtime

#endif  // RSERVE_SRC_RUNTIME_DRIVER_H_
