// ShadowModel: an observer that trusts nothing. It sees every input given to an orchestrator and
// every action it emits, keeps books of its own and checks the invariants of
// rserve/cc/orchestrator.h after every action and every step. The orchestrator is asked for nothing
// but stats(), idle() and next_wake_ns(), which are compared with the books.
//
// Where the contract leaves the orchestrator a choice (when a whole-request gate reserves, whether
// the row of an ended request still reads) the check is one-sided: it never reports what the
// contract allows.

#ifndef RSERVE_TESTS_CORE_SHADOW_MODEL_H_
#define RSERVE_TESTS_CORE_SHADOW_MODEL_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "rserve/cc/orchestrator.h"
#include "tests/core/action_text.h"
#include "tests/core/coverage.h"
#include "tests/core/shadow_plan.h"

namespace rserve::test {

enum class TokenKind : int32_t { kPrepare, kEncode, kStage };

struct ShadowUnit {
  enum class State : int32_t {
    kWaiting,
    kPreparing,
    kPrepared,
    kEncoding,
    kEncoded,
    kFailed,
    kCovered  // by reused KV: never to be prepared or encoded
  };
  State state = State::kWaiting;
  int32_t attempts = 0;
  bool embedding_held = false, embedding_released = false;
  bool pixels_held = false, pixels_released = false;
};

struct ShadowRequest {
  explicit ShadowRequest(RequestPlan plan) : shape(std::move(plan)) {}
  RequestId id() const { return shape.plan().id; }
  bool open() const { return accepted && !ended; }

  ShadowPlan shape;
  uint64_t arrival = 0;
  bool accepted = false, ended = false;
  bool may_cancel = false, may_fail_any = false, must_end = false;
  std::vector<absl::StatusCode> may_fail;
  std::vector<ShadowUnit> units;
  std::vector<bool> encoded;  // by unit
  int64_t frontier = 0;
  int32_t units_encoded = 0;
  std::vector<bool> item_encoded, input_released;  // events seen
  bool first_token = false;
  bool first_token_due = false;
  int64_t reused = 0;            // tokens of others' KV, as told when it was accepted
  bool reuse_open = false;       // it may reuse more by now: how much is seen when it enters
  bool entered = false;          // in a micro-batch
  int64_t scheduled = 0;         // tokens in micro-batches, or reused
  int64_t committed = 0;         // through the last stage that reads embeddings
  int64_t prefilled = 0;         // through the last stage
  int32_t chunks_in_flight = 0;  // micro-batches of it not through the last stage
  std::vector<int32_t> kv_table;
  int32_t tokens_out = 0;      // action tokens that name it
  bool started_given = false;  // a StartedInput named one of its tokens
  RequestTimes times;
};

struct ShadowBlock {
  std::vector<ShadowRequest*> owners;  // that have been given it since it was last given out anew
  bool written = false;                // by every stage, all of it
  KvBlockKey key = {};                 // if written
};

struct ShadowMicroBatch {
  struct Entry {
    ShadowRequest* request = nullptr;  // null once it is forgotten
    BatchEntry chunk;
    bool reads = false;  // the stage action that is out was given embeddings
  };
  uint64_t number = 0;
  int32_t stage = 0;  // where it is, or has last been
  bool out = false;   // an action of it is out; else it waits for the next stage
  bool failed = false;
  std::vector<Entry> entries;
};

// One action that an executor has not finished yet.
struct OutAction {
  TokenKind kind = TokenKind::kPrepare;
  ActionToken token = 0;
  int32_t worker = -1;         // -1: a preparation
  std::vector<UnitRef> units;  // kPrepare, kEncode
  uint64_t micro_batch = 0;    // kStage
};

class ShadowModel : public ActionSink {
 public:
  // `coverage` may be null.
  ShadowModel(const OrchestratorConfig& config, Coverage* coverage);

  // Gives the inputs to both and checks. False at the first violation, which violation() tells.
  bool Step(Orchestrator& orchestrator, TimeNs now_ns, std::vector<Input>& inputs);
  const std::string& violation() const { return violation_; }

  const std::vector<OutAction>& out() const { return out_; }
  const std::vector<std::unique_ptr<ShadowRequest>>& requests() const { return requests_; }
  ShadowRequest* Find(RequestId id);
  // Where the request is, as an offset from kCancelQueued or kDeadlineQueued.
  int32_t Phase(const ShadowRequest& request) const;
  int64_t open_requests() const { return open_; }
  int64_t known_requests() const { return static_cast<int64_t>(requests_.size()); }
  bool worker_lost() const { return any_lost_; }
  bool draining() const { return draining_; }

  void OnPrepare(const PrepareAction& action) override;
  void OnEncode(const EncodeAction& action) override;
  void OnStage(const StageAction& action) override;
  void OnMicroBatchDropped(uint64_t micro_batch) override;
  void OnReleasePixels(UnitRef unit) override;
  void OnReleaseEmbedding(UnitRef unit) override;
  void OnEvent(const EventAction& event) override;
  void OnForget(RequestId request) override;

 private:
  struct PendingSubmit {
    RequestId id = 0;
    bool refuse = false;  // its id is taken, or nothing is accepted any more
    absl::Status fits;
    bool over_queue = false, over_input = false;  // can be refused for want of room
    bool late = false;                            // its deadline has passed already
  };

  // Notes a violation of the invariant; the first one counts.
  template <typename... Args>
  void Fail(const char* invariant, const Args&... args) {
    if (violation_.empty()) violation_ = absl::StrCat("invariant ", invariant, ": ", args...);
  }
  void Hit(Reached what) {
    if (coverage_ != nullptr) coverage_->Hit(what);
  }

  // shadow_events.cc
  void OnRefusedOrAccepted(const EventAction& event);
  void OnItemEvent(const EventAction& event, ShadowRequest* request);
  void OnTerminal(const EventAction& event, ShadowRequest* request);
  void CheckTimes(const EventAction& event, const ShadowRequest& request);

  bool DeadlinePassed(const ShadowRequest& request) const;
  // Open, and nothing has come that ends it.
  bool Running(const ShadowRequest& request) const;
  // As Running, and no loss of a worker may have ended it: which requests a loss ends is not said.
  bool MustKeep(const ShadowRequest& request) const;
  // Tokens out that may read the host's memory of the request's items: its terminal event, which
  // gives that memory back, may wait for them.
  int32_t InputReaders(const ShadowRequest& request) const;

  // shadow_inputs.cc: what an input means.
  void Apply(const Orchestrator& orchestrator, const Input& input);
  void ApplySubmit(const Orchestrator& orchestrator, const RequestPlan& plan);
  void ApplyEncode(const OutAction& action, const EncodeFinishedInput& input);
  void FailUnit(ShadowRequest* request, int32_t unit, const absl::Status& status);
  void FinishStage(uint64_t micro_batch, const absl::Status& status);
  void FailMicroBatch(ShadowMicroBatch* batch, absl::StatusCode code);
  void LoseWorker(int32_t worker);
  bool TakeOut(ActionToken token, TokenKind kind, OutAction* action);

  // shadow_stage.cc: micro-batches.
  void CheckFirstStage(const StageAction& action);
  void CheckOrder(const StageAction& action);
  void CheckOrderByDue(const StageAction& action);
  void CheckLaterStage(const StageAction& action, ShadowMicroBatch* batch);
  void CheckEntry(const StageAction& action, const StageEntryAction& entry, ShadowRequest* request);

  // shadow_reuse.cc: KV blocks.
  void AcceptReuse(const EventAction& event, ShadowRequest* request);
  // Whether none of its units has been begun, so that it may still find that it needs none.
  bool NoneBegun(const ShadowRequest& request) const;
  void Cover(ShadowRequest* request, int32_t unit);
  void CheckEnter(const StageEntryAction& entry, ShadowRequest* request);
  void NoteWritten(const ShadowRequest& request, int64_t begin, int64_t end);
  void Overwrite(ShadowBlock* block);
  // What the request could reuse of what is written now.
  int64_t MayReuse(const ShadowRequest& request) const;
  int64_t KvNeed(const ShadowRequest& request) const;
  bool KvTouched(const ShadowRequest& request) const;
  // Different blocks of those that have entered; only of those whose blocks are surely not free.
  int64_t KvTaken(bool surely) const;
  // At most, by those that have not entered.
  int64_t KvHeld() const;
  bool Owns(const ShadowRequest& request, int32_t block) const;

  bool MayTake(const ShadowRequest& request) const;
  bool OneWorkerForAll() const;
  bool MayBeginBeforeSpan(const ShadowRequest& request, int64_t left) const;
  // Sharing::kOneRequest: the one that has the pipeline; not certain: that may still have it.
  const ShadowRequest* Exclusive(bool certain) const;

  // shadow_step.cc: what must hold between steps.
  void CheckStep(const Orchestrator& orchestrator);
  void CheckRequests();
  void CheckBudgets(const OrchestratorStats& stats);
  void CheckStats(const OrchestratorStats& stats, bool idle);
  void CheckWork();
  void CheckEncoders();
  void CheckStages();
  void NoteBlocked();

  bool NewToken(ActionToken token);
  void Hold(ShadowRequest* request, int32_t unit);  // its pixels and its embedding
  bool CheckSlot(int32_t worker);
  int32_t OutOn(int32_t worker) const;
  int32_t EncodersLeft() const;
  int32_t Preparing() const;
  bool OldestFirst(const ShadowRequest& request) const;

  const OrchestratorConfig config_;
  Coverage* const coverage_;
  int32_t num_stages_ = 0;
  int32_t max_micro_batches_ = 0;
  std::vector<int32_t> stage_worker_;
  std::vector<bool> lost_;
  bool any_lost_ = false, any_stage_lost_ = false, draining_ = false;
  bool lost_now_ = false;  // in this step

  TimeNs now_ns_ = 0;
  uint64_t arrivals_ = 0;
  absl::flat_hash_set<ActionToken> tokens_seen_;
  uint64_t last_micro_batch_ = 0;
  std::vector<std::unique_ptr<ShadowRequest>> requests_;  // in order of arrival
  std::vector<OutAction> out_;                            // in order of issue
  std::vector<ShadowMicroBatch> batches_;                 // on their way, in order
  std::vector<PendingSubmit> submits_;
  std::vector<ShadowBlock> blocks_;
  absl::flat_hash_map<KvBlockKey, int32_t> written_;  // blocks by what they hold, how many

  int64_t open_ = 0, input_bytes_ = 0;
  int64_t embedding_bytes_ = 0, pixel_bytes_ = 0, units_held_ = 0;
  int64_t accepted_ = 0, finished_ = 0, failed_ = 0, cancelled_ = 0, refused_ = 0;
  int64_t stale_low_ = 0, stale_high_ = 0;
  int64_t encode_batches_ = 0, micro_batches_ = 0;
  int64_t reused_tokens_ = 0;
  std::string violation_;
};

}  // namespace rserve::test

#endif  // RSERVE_TESTS_CORE_SHADOW_MODEL_H_
