// Orchestrator: the whole of the scheduling as a pure state machine.
//
// It composes EmbeddingTracker, EncoderScheduler, TokenScheduler and KvBlockPool. A host feeds it
// inputs (a request came, an encode finished, time passed) and carries out its actions (prepare
// these pixels, encode this batch, run this micro-batch, tell the user). It has no threads, clock,
// randomness or I/O: the same inputs give the same actions, byte for byte. The engine drives it
// with real workers, the simulator with virtual time, the tests with random orders, and a host that
// already has a loop and a model of its own drives it directly.
//
//   arrival -> [prepare] -> encode (batches of at least C tokens) -> stage 0 -> ... -> last stage
//                                         micro-batches of at most B tokens
//
// Every action that takes time carries a token. Exactly one *finished input with that token must
// come back, also after the request was cancelled: until then the buffers that the executor may
// touch are not reused. A token that is unknown or came before is counted in stats().stale_tokens
// and ignored.
//
// Not thread-safe: one thread steps it.
//
// Invariants (checked after every step by tests/core/random_order_test.cc)
//   1. Within one attempt a token enters a micro-batch once, in prompt order, only if ready, with
//      all earlier tokens of its request in this or an earlier micro-batch.
//   2. A micro-batch holds at most B tokens and no empty entry. A stage with a free slot is left
//      without one only if nothing is eligible: gate, sharing, order, room to enter (KV blocks and
//      places for the units to come), the limit of micro-batches in flight, or an encode that
//      stage's worker must do first (EncodeTrigger; and where C follows the load and one worker is
//      all there is, the pictures of the request that is next, while they are being prepared). Such
//      a worker does not fill a micro-batch with a request whose pictures are not all encoded.
//   3. A unit is encoded once an attempt, unless its encode failed; never after its request ended;
//      not at all if the KV that its request reuses covers all that reads it.
//   4. Referenced embedding bytes, pixel bytes, units in flight and KV blocks never exceed their
//      budgets, and are zero when no request is open and no token is out.
//   5. Under Order::kArrival a request never overtakes an older one, except where the older has no
//      schedulable token. Under the other orders it may, if it was submitted less than the guard
//      (Policy::order_guard_ns, hopeless_guard_ns) after it.
//   6. Every accepted request gets exactly one terminal event; no buffer is released while a token
//      that may touch it is out.
//   7. Same inputs, same actions: rates are learned from completions in integers (core/rates.h).
//   8. What is reused is a true prefix: its blocks hold, under the request's own keys, what every
//      stage has written; its end cuts no atomic span and leaves at least one token to prefill. A
//      block is not written while another request has it, and none is lost.
//
// Why no mix of budgets can deadlock. Rank requests: those that have entered (hold KV blocks) by
// their entry, then the others by arrival. Let floor(q) be the largest amount that q must hold at
// once to get past any of its remaining units (the unit itself and those before it that are still
// read behind it); the plan is refused unless floor(q) fits the budget, its KV blocks fit the pool,
// and its atomic spans fit B. Rules: (a) the first-ranked request with units to place may use all
// that is free; (b) any other may place a unit only if what stays free is at least the largest
// floor of the other requests with units to place; (c) a request may enter before an older one only
// if what the requests that have not entered hold, and its own floor, fit the budget together. Then
// for every request q, what lower-ranked requests hold plus floor(q) never exceeds the budget: (b)
// keeps it when they place, (c) when q gains rank. So the first-ranked request always gets its next
// unit once its own earlier units are prefilled; it holds its KV blocks or, if nobody has entered,
// can have them all; so it proceeds and ends, and the next one becomes first. Under a whole-request
// gate all of a request is placed at once in order of arrival, so whoever holds embeddings needs no
// more of them; KV blocks are taken at entry and never asked for again.
//
// Reuse gives a request KV blocks before it enters: the shared ones, which it holds from when they
// are found (at its submit, while none of its units has a place, when it is about to enter). Rule
// (d): it may take hold of more only if all that requests that have not entered hold then,
// and the most that another of them still lacks, fit the pool together. So for every request that
// has not entered: its lack and all that later holds keep from it fit the pool (holds only grow
// under (d), a lack only shrinks, and a request's own hold moves a block from the one to the
// other). When nobody has entered, what is not free are holds, and those of the oldest request and
// of later ones are all there are: it finds what it lacks. Blocks that nobody holds or has are
// free, whatever is kept in them.
//
// Orders other than by arrival change who is asked first, never who may place or enter: the encoder
// falls back to the first-ranked request when the one due first has no place, and stage 0, when
// nobody has entered and the one due first finds no room, to the oldest that has tokens, which by
// the above always finds some. Under a whole-request gate encoding keeps to the order of arrival.

#ifndef RSERVE_CC_ORCHESTRATOR_H_
#define RSERVE_CC_ORCHESTRATOR_H_

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "rserve/cc/embedding_tracker.h"
#include "rserve/cc/policy.h"
#include "rserve/cc/request_plan.h"
#include "rserve/cc/token_scheduler.h"

namespace rserve {

// Identifies one issued action until it is finished. Never 0, never reused.
using ActionToken = uint64_t;

// Every limit by its name, so that a refusal can say which one it was.
struct Budgets {
  int64_t embedding_bytes = INT64_MAX;       // reserved and not yet released embeddings
  int64_t pixel_bytes = INT64_MAX;           // prepared inputs not yet encoded
  int64_t units_in_flight = INT64_MAX;       // units with a reserved embedding
  int64_t encoder_batch_tokens = INT64_MAX;  // tokens of one encode batch
  int32_t kv_blocks = 1 << 20;
  int32_t kv_block_tokens = 16;
  int64_t queue_requests = INT64_MAX;  // open requests
  int64_t input_bytes = INT64_MAX;     // host bytes of open requests
};

struct OrchestratorConfig {
  std::vector<WorkerSpec> workers;
  Policy policy;
  Budgets budgets;
  // Units prepared at the same time; 0: units need no preparation.
  int32_t prepare_lanes = 0;
  // Micro-batches issued and not through the last stage; 0: the sum of the stage workers' depths.
  int32_t max_micro_batches = 0;
  // How often a unit whose encode failed with UNAVAILABLE is encoded, at most.
  int32_t max_encode_attempts = 1;
};

// ---- Inputs
// ---------------------------------------------------------------------------------------

struct SubmitInput {
  RequestPlan plan;
};
struct CancelInput {
  RequestId request = 0;
};
struct PrepareFinishedInput {
  ActionToken token = 0;
  absl::Status status;
};
struct EncodeFinishedInput {
  ActionToken token = 0;
  absl::Status status;  // of the whole batch
  // If the batch went through: one status a unit, in batch order; empty: all fine.
  std::vector<absl::Status> unit_status;
};
struct StageFinishedInput {
  ActionToken token = 0;
  absl::Status status;  // a failure ends every request in the micro-batch
};
// The executor began with the action (its wait in the worker's queue is over). Optional; feeds the
// request's timeline.
struct StartedInput {
  ActionToken token = 0;
};
// The worker is gone. Its tokens are finished by this input: nothing of it will be written any
// more.
struct WorkerLostInput {
  int32_t worker = 0;
  absl::Status status;
};
// Refuse new requests, finish the open ones.
struct DrainInput {};
// Refuse new requests, end the open ones with CANCELLED.
struct AbortInput {};

using Input =
    std::variant<SubmitInput, CancelInput, PrepareFinishedInput, EncodeFinishedInput,
                 StageFinishedInput, StartedInput, WorkerLostInput, DrainInput, AbortInput>;

// ---- Actions
// --------------------------------------------------------------------------------------

struct PrepareAction {
  ActionToken token = 0;
  UnitRef unit;
};

struct EncodeAction {
  ActionToken token = 0;
  int32_t worker = 0;
  absl::Span<const UnitRef> units;
  int64_t tokens = 0;
};

struct StageEntryAction {
  BatchEntry chunk;
  absl::Span<const int32_t> kv_blocks;          // the request's block table
  absl::Span<const EmbeddingSlice> embeddings;  // what the chunk reads; last reader stages only
  bool last_chunk = false;                      // ends the prompt: the last stage yields a token
  bool ended = false;                           // its request has ended: the result is not used
};

struct StageAction {
  ActionToken token = 0;
  int32_t worker = 0;
  int32_t stage = 0;
  bool last_stage = false;
  uint64_t micro_batch = 0;  // the same number on every stage
  absl::Span<const StageEntryAction> entries;
  int64_t tokens = 0;
};

enum class EventType : int32_t {
  kAccepted = 1,
  kItemEncoded = 2,    // `item`; or it needs no encode, since reused KV covers it
  kInputReleased = 3,  // `item`: the host may reuse its pixels or bytes
  kFirstToken = 4,
  kFinished = 5,   // terminal
  kFailed = 6,     // terminal, `status` says why
  kCancelled = 7,  // terminal
  kRefused = 8,    // the submit was not accepted, `status` says why; nothing else follows
};
inline bool IsTerminal(EventType type) {
  return type == EventType::kFinished || type == EventType::kFailed ||
         type == EventType::kCancelled;
}

// When a request passed which point; 0: not yet.
struct RequestTimes {
  TimeNs submitted_ns = 0;
  TimeNs first_encode_ns = 0;   // first batch with a unit of it issued
  TimeNs last_encode_ns = 0;    // last unit encoded
  TimeNs first_prefill_ns = 0;  // first chunk issued to stage 0
  TimeNs first_token_ns = 0;
  TimeNs first_prepare_ns = 0;  // first unit given to preparation
  TimeNs last_prepare_ns = 0;   // last unit prepared
};

struct EventAction {
  EventType type = EventType::kAccepted;
  RequestId request = 0;
  int32_t item = -1;
  const absl::Status* status = nullptr;  // kFailed, kCancelled, kRefused
  const RequestTimes* times = nullptr;   // kFirstToken and terminal events
  // Prompt tokens, from the first one on, whose KV others wrote; may still grow until the request's
  // first micro-batch.
  int64_t reused_tokens = 0;
};

// Receives actions in the order in which they are to be carried out. Spans and pointers are valid
// during the call only.
class ActionSink {
 public:
  virtual ~ActionSink() = default;
  virtual void OnPrepare(const PrepareAction& action) = 0;
  virtual void OnEncode(const EncodeAction& action) = 0;
  virtual void OnStage(const StageAction& action) = 0;
  // A micro-batch that was issued will not go on: a stage failed or is lost, or all its requests
  // have ended. Each micro-batch ends once: by its last stage, or by this.
  virtual void OnMicroBatchDropped(uint64_t micro_batch) = 0;
  // The unit's prepared input, its embedding, are not read or written any more. Pixels also of a
  // unit that was never prepared, since reused KV covers it.
  virtual void OnReleasePixels(UnitRef unit) = 0;
  virtual void OnReleaseEmbedding(UnitRef unit) = 0;
  virtual void OnEvent(const EventAction& event) = 0;
  // Nothing refers to the request any more; its id may be used again.
  virtual void OnForget(RequestId request) = 0;
};

struct OrchestratorStats {
  int64_t open_requests = 0;       // accepted, no terminal event yet
  int64_t lingering_requests = 0;  // ended, an executor still holds a token of theirs
  int64_t embedding_bytes = 0, peak_embedding_bytes = 0;
  int64_t pixel_bytes = 0, peak_pixel_bytes = 0;
  int64_t units_in_flight = 0;
  int64_t kv_blocks_used = 0, peak_kv_blocks_used = 0;
  int64_t input_bytes = 0;
  int64_t encode_batches = 0, encoded_units = 0, encoded_tokens = 0;
  int64_t micro_batches = 0, prefilled_tokens = 0;
  int64_t accepted = 0, finished = 0, failed = 0, cancelled = 0, refused = 0;
  int64_t stale_tokens = 0;
  int64_t reused_tokens = 0;     // of prompts that have entered: held by KV that others wrote
  int64_t kv_blocks_cached = 0;  // in use by nobody, kept for reuse; they count as free
  int64_t kv_evictions = 0;      // kept blocks that were given out anew
};

class Orchestrator {
 public:
  // INVALID_ARGUMENT names the option: no stage 0, a gap or a double in the stages, units to encode
  // but no encoder, a budget or depth below 1, a trigger that needs the encoder on stage 0's
  // worker.
  static absl::StatusOr<std::unique_ptr<Orchestrator>> Create(const OrchestratorConfig& config);
  ~Orchestrator();
  Orchestrator(const Orchestrator&) = delete;
  Orchestrator& operator=(const Orchestrator&) = delete;

  // Whether the plan could ever run under this configuration; the same answer at any time and from
  // any thread. INVALID_ARGUMENT for a malformed plan, RESOURCE_EXHAUSTED for one that can never
  // fit, with the size, the limit and the option's name.
  absl::Status CheckFits(const RequestPlan& plan) const;

  // Applies the inputs in order (they are consumed), expires deadlines at `now_ns`, and emits all
  // actions that are now possible. `now_ns` never goes back.
  void Step(TimeNs now_ns, absl::Span<Input> inputs, ActionSink& sink);

  // When Step must be called again even without inputs, or kNever.
  TimeNs next_wake_ns() const;
  bool idle() const;  // no open or lingering request
  OrchestratorStats stats() const;
  const OrchestratorConfig& config() const;

 private:
  class Impl;
  explicit Orchestrator(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace rserve

#endif  // RSERVE_CC_ORCHESTRATOR_H_
