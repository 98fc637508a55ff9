// GatedExecutor: an executor whose actions a test starts, holds and ends by name, so that a test of
// threads needs no clock and no sleep.
//
// Names of actions, also the lines of the log in the order in which the engine called:
//   "prepare 1:0"            unit 0 of request 1
//   "encode 1:0 1:1"         a batch of two units
//   "forward s0 1[0,8)"      stage 0, tokens 0 to 7 of request 1
//   "forward s0 1[8,9) 2[0,3)"
//   "take 1", "release pixels 1:0", "release embedding 1:0", "drop", "forget 1"

#ifndef RSERVE_TESTS_RUNTIME_GATED_EXECUTOR_H_
#define RSERVE_TESTS_RUNTIME_GATED_EXECUTOR_H_

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "rserve/cc/executor.h"

namespace rserve::testing {

enum class Behaviour {
  kHold,         // the worker's thread waits for Release, then reports (the default)
  kReturn,       // the call returns; Release reports from the test's thread
  kFinish,       // reports at once
  kTwice,        // reports at once, and once more
  kOtherThread,  // reports from a thread of the executor's own
  kDrop,         // never reports
  kThrow,        // throws std::runtime_error("boom")
  kBadAlloc,     // throws std::bad_alloc
};

// The test's side; lives longer than the engine that owns the executor.
class ActionGate {
 public:
  ~ActionGate();

  // All actions whose name begins with `prefix`; the longest prefix counts.
  void Set(const std::string& prefix, Behaviour behaviour);
  // What actions with that prefix, or "take", report.
  void SetStatus(const std::string& prefix, absl::Status status);

  // Blocks until the call has begun.
  void Await(const std::string& name);
  // Await, then lets the action report. Once for each time it began.
  void Release(const std::string& name, absl::Status status = absl::OkStatus());

  // Releases what is held and lets all that begins later finish at once.
  void Open();

  // The test submits a forgotten id again.
  void ExpectAgain(RequestId request);

  bool Began(const std::string& name);
  std::vector<std::string> log();
  // What the engine did against the executor's contract: a buffer given back that an action may
  // still touch, a call for a forgotten request.
  std::vector<std::string> violations();

 private:
  friend class GatedExecutor;
  struct Held {
    std::string name;
    std::vector<UnitRef> units;  // whose buffers it touches
    std::set<RequestId> requests;
    bool released = false;
    absl::Status status;
    std::unique_ptr<Done> done;  // kReturn
  };

  absl::Status StatusFor(const std::string& name);
  Behaviour BehaviourFor(const std::string& name);
  void Log(const std::string& line);
  void CheckUnused(const std::string& line, UnitRef unit);
  void Act(std::shared_ptr<Held> held, Done done);

  std::mutex mu_;
  std::condition_variable changed_;
  std::map<std::string, Behaviour> behaviours_;
  std::map<std::string, absl::Status> statuses_;
  std::vector<std::string> log_;
  std::vector<std::string> violations_;
  std::vector<std::shared_ptr<Held>> active_;
  std::set<RequestId> forgotten_;
  std::vector<std::thread> threads_;
};

class GatedExecutor final : public Executor {
 public:
  explicit GatedExecutor(std::shared_ptr<ActionGate> gate) : gate_(std::move(gate)) {}

  absl::Status Prepare(UnitRef unit) override;
  void Encode(EncodeJob job, Done done) override;
  void Forward(StageJob job, Done done) override;
  void DropMicroBatch(uint64_t micro_batch) override;
  void ReleasePixels(UnitRef unit) override;
  void ReleaseEmbedding(UnitRef unit) override;
  absl::Status TakeFirstToken(RequestId request, FirstToken* out) override;
  void Forget(RequestId request) override;

 private:
  const std::shared_ptr<ActionGate> gate_;
};

}  // namespace rserve::testing

#endif  // RSERVE_TESTS_RUNTIME_GATED_EXECUTOR_H_
