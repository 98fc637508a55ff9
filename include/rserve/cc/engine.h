// Engine: an Orchestrator with threads, a clock, an event queue and a wait fd around it.
//
// Lifecycle: Create -> Submit/Cancel from any thread, Poll from one -> Drain or Abort -> destroy.
// One driver thread owns the orchestrator, each worker has a thread, and media threads prepare
// inputs. Completions reach the driver through a queue; no lock is held over a call of the
// executor.
//
//   int fd = engine->wait_fd();                    // readable while there may be events
//   while (!done) {
//     poll(fd)                                     // next_deadline_ns() bounds the wait
//     for (const Event& e : engine->Poll(64)) ...
//   }

#ifndef RSERVE_CC_ENGINE_H_
#define RSERVE_CC_ENGINE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "rserve/cc/executor.h"
#include "rserve/cc/orchestrator.h"

namespace rserve {

// One thing a worker or a media thread did, for timelines and traces.
struct TraceSpan {
  enum class Kind : int32_t { kPrepare = 0, kEncode = 1, kStage = 2 };
  Kind kind = Kind::kPrepare;
  int32_t worker = -1;  // -1: a media thread
  int32_t lane = 0;     // which media thread
  int32_t stage = -1;
  TimeNs begin_ns = 0;  // on the engine's clock
  TimeNs end_ns = 0;
  int64_t tokens = 0;
  uint64_t micro_batch = 0;         // kStage
  std::vector<UnitRef> units;       // kPrepare, kEncode
  std::vector<BatchEntry> entries;  // kStage
};

struct EngineOptions {
  OrchestratorConfig core;
  // Cores a worker's thread is pinned to, by worker; missing or empty: not pinned.
  std::vector<std::vector<int>> worker_cores;
  // Receives a span when it ends, on the driver thread. Must not call back into the engine.
  std::function<void(const TraceSpan&)> trace;
  // Formatted messages; on any thread; must not call back. Empty: silent.
  std::function<void(int32_t level, const std::string& message)> log;
};

struct Event {
  EventType type = EventType::kAccepted;
  bool more = true;  // false on the terminal event only
  RequestId request = 0;
  uint64_t user_data = 0;
  int32_t item = -1;  // kItemEncoded, kInputReleased
  int64_t item_tokens = 0;
  absl::Status status;        // terminal events
  FirstToken first_token;     // kFirstToken
  RequestTimes times;         // kFirstToken and terminal events, on the engine's clock
  TimeNs time_ns = 0;         // when it happened, monotonic
  int64_t reused_tokens = 0;  // as EventAction
};

class Engine {
 public:
  // The executor is owned and outlives every call made to it. INVALID_ARGUMENT as Orchestrator.
  static absl::StatusOr<std::unique_ptr<Engine>> Create(EngineOptions options,
                                                        std::unique_ptr<Executor> executor);
  // Aborts what is open, waits for what executors still hold, then stops the threads. Events that
  // were not polled are lost with it. May block for as long as an action takes.
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // A fresh id, so that the executor can be told about a request before its Submit. [any-thread]
  RequestId NewRequestId();
  // Never blocks. OK: accepted, and exactly one terminal event will come. Otherwise nothing comes
  // and nothing is kept: as CheckFits, or RESOURCE_EXHAUSTED when `queue_requests` or `input_bytes`
  // are used up, FAILED_PRECONDITION after Drain, Abort or the loss of a worker that all need.
  // `plan.deadline_ns` is on the clock of now_ns(). [any-thread]
  absl::Status Submit(RequestPlan plan, uint64_t user_data);
  // Best effort: the request may still finish. NOT_FOUND when it is not open. [any-thread]
  absl::Status Cancel(RequestId request);
  void Drain();  // [any-thread]
  void Abort();  // [any-thread]

  // Appends up to `capacity` events to `events` and returns how many. Never blocks. [one thread]
  int64_t Poll(int64_t capacity, std::vector<Event>* events);
  // Readable while there may be events: a hint, drained by Poll. Owned by the engine. [any-thread]
  int wait_fd() const;
  // When Poll should be called again even if the fd stays quiet, or kNever. [any-thread]
  TimeNs next_deadline_ns() const;
  // CLOCK_MONOTONIC. [any-thread]
  static TimeNs now_ns();

  OrchestratorStats stats() const;  // a recent copy [any-thread]
  bool idle() const;                // nothing open or lingering [any-thread]
  Executor& executor();

 private:
  class Impl;
  explicit Engine(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace rserve

#endif  // RSERVE_CC_ENGINE_H_
