// The state of an Orchestrator. Split over orchestrator.cc (creation, limits, step), _submit.cc
// (the way in), _reuse.cc (KV that others wrote), _policy.cc (order, B and C from learned rates),
// _dispatch.cc (what to start), _progress.cc (what finished) and _end.cc (the way out).

#ifndef RSERVE_SRC_CORE_ORCHESTRATOR_IMPL_H_
#define RSERVE_SRC_CORE_ORCHESTRATOR_IMPL_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <set>
#include <tuple>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "rserve/cc/encoder_scheduler.h"
#include "rserve/cc/kv_block_pool.h"
#include "rserve/cc/orchestrator.h"
#include "src/core/place_ledger.h"
#include "src/core/rates.h"
#include "src/core/unit_layout.h"

namespace rserve {

class Orchestrator::Impl {
 public:
  explicit Impl(const OrchestratorConfig& config);

  absl::Status CheckFits(const RequestPlan& plan) const;
  void Step(TimeNs now_ns, absl::Span<Input> inputs, ActionSink& sink);
  TimeNs next_wake_ns() const;
  bool idle() const { return requests_.empty(); }
  OrchestratorStats stats() const;
  const OrchestratorConfig& config() const { return config_; }

 private:
  struct UnitProgress {
    int32_t attempts = 0;
    bool pixels_held = false;
    bool preparing = false;  // a prepare token is out
    bool prepared = false;
    bool encoding = false;  // an encode token is out
    bool encoded = false;   // or reused KV covers it
  };

  struct Request {
    RequestPlan plan;
    uint64_t arrival = 0;
    UnitLayout layout;
    std::vector<UnitProgress> units;
    std::vector<int32_t> item_units_to_encode;   // by item
    std::vector<int32_t> item_units_with_input;  // by item: units that still need the host's input
    std::vector<bool> item_input_released;       // by item
    int64_t units_to_encode = 0;
    int64_t encode_tokens = 0;         // of units that are not encoded
    bool hopeless = false;             // cannot meet the SLO any more
    TimeNs hopeless_from_ns = kNever;  // its entry in slo_checks_
    bool placed_whole = false;         // whole-request gate: its embeddings are reserved
    bool has_kv = false;               // entered: has all of its KV blocks
    std::vector<int32_t> kv_blocks;    // before that: those that it shares
    int64_t kv_lacks = -1;             // its entry in kv_lacks_; -1: none
    int64_t kv_awaited = -1;           // block whose key is its entry in kv_awaited_; -1: none
    int64_t kv_published = 0;          // blocks, from the first one on, that others may share
    int64_t reused_tokens = 0;
    int32_t prepares_out = 0;  // tokens that are out, by what they may touch
    int32_t encodes_out = 0;
    int32_t micro_batches_out = 0;
    RequestTimes times;
    ActionToken first_encode_token = 0;
    ActionToken first_stage_token = 0;
    bool ended = false;  // no more work is started for it
    bool terminal_sent = false;
    EventType terminal = EventType::kFinished;
    absl::Status terminal_status;
  };

  struct Flight {  // one action that is out
    enum class Kind { kPrepare, kEncode, kStage } kind = Kind::kPrepare;
    int32_t worker = -1;
    std::vector<UnitRef> units;  // kPrepare, kEncode
    uint64_t micro_batch = 0;    // kStage
    TimeNs begin_ns = 0;         // issued, or started if that was told
  };

  struct MicroBatch {
    std::vector<BatchEntry> entries;
    int64_t tokens = 0;
  };

  struct StageSlot {  // one micro-batch issued to a stage
    uint64_t micro_batch = 0;
    bool finished = false;
    absl::Status status;
  };

  struct Stage {
    int32_t worker = -1;
    std::deque<StageSlot> issued;  // in issue order, which is the order of micro-batch numbers
    std::deque<uint64_t> ready;    // through the stage before, not issued to this one
  };

  struct Worker {
    WorkerSpec spec;
    int32_t in_flight = 0;
    TimeNs last_finish_ns = 0;
    int32_t passes = 0;  // actions of spec.first since the other role last had its turn
    bool lost = false;
  };

  // Inputs, one overload each.
  void Apply(SubmitInput& input);
  void Apply(CancelInput& input);
  void Apply(PrepareFinishedInput& input);
  void Apply(EncodeFinishedInput& input);
  void Apply(StageFinishedInput& input);
  void Apply(StartedInput& input);
  void Apply(WorkerLostInput& input);
  void Apply(DrainInput& input);
  void Apply(AbortInput& input);
  void ExpireDeadlines();

  // KV that others wrote.
  int64_t KvNeed(const Request& request) const;
  void WaitForKv(Request& request);
  void EndWaitForKv(Request& request);
  void HoldReusable(Request& request, int64_t end);
  void SkipReused(Request& request, int64_t tokens);
  void AwaitKv(Request& request);
  void EndAwaitKv(Request& request);
  void ReuseWhileWaiting(Request& request);
  void ReuseBeforeEntry(Request& request);
  void PublishKv(Request& request, int64_t end);

  // Order, B and C.
  bool UsesOrder() const { return config_.policy.order != Order::kArrival; }
  TimeNs WorkLeftNs(const Request& request) const;
  void UpdateOrder(Request& request);
  void ExpireHopes();
  void ChooseTokenBudget();
  // To the mean of what was best for each of the last micro-batches, however often it is asked
  // before the next one comes of it: of all at first, then with the older ones fading.
  void MoveTokenBudget(int64_t budget);
  void ChooseEncodeBatch();
  void ChooseEncodeBatchAlone(const Request& front);
  void Learn(const Flight& flight);

  // Starting work.
  void Dispatch();
  bool PrepareNext();
  bool IssueOne(Worker& worker, int32_t index);
  RequestId WaitsForEncode();  // 0: nobody
  bool TryEncode(Worker& worker, int32_t index);
  bool TryStage(Worker& worker, int32_t index);
  bool FormMicroBatch(int32_t worker_index);
  void IssueStage(int32_t worker_index, int32_t stage, uint64_t micro_batch);
  bool Place(UnitRef unit);
  bool PlaceEmbedding(Request& request, int32_t unit);
  int64_t ChunkFor(RequestId id, int64_t limit);
  int64_t ChunkAfterEncode(Request& request, int64_t limit);
  bool MayEnter(const Request& request) const;
  bool Enter(RequestId id);
  RequestId PreferredForPrepare() const;
  RequestId PreferredForEncode() const;
  void QueueForEncode(Request& request);
  void UpdateSchedulable(Request& request);
  bool EncodesAtItsTurn() const { return config_.policy.trigger != EncodeTrigger::kOnArrival; }

  // Finishing work.
  void FinishUnitEncode(UnitRef unit, const absl::Status& status);
  void AdvanceStage(int32_t stage);
  void CommitEmbeddings(int32_t stage, const MicroBatch& batch);
  void RetireMicroBatch(uint64_t id, const absl::Status& status);
  void DropMicroBatch(uint64_t id);
  bool AllEnded(const MicroBatch& batch) const;
  void LoseEncoder(const std::vector<ActionToken>& tokens, const absl::Status& status);
  void LoseStage(int32_t stage, const std::vector<ActionToken>& tokens, const absl::Status& status);

  // Ending requests.
  void End(Request& request, EventType terminal, absl::Status status);
  void EndAll(EventType terminal, const absl::Status& status, bool only_with_encodes_left);
  void ReleaseInputOfUnit(Request& request, int32_t unit);
  void ReleaseInput(Request& request, int32_t item);
  void ReleasePixels(Request& request, int32_t unit);
  void ReleaseEmbedding(Request& request, int32_t unit);
  void Settle(Request& request);  // after the end: gives back what no token touches any more

  void Emit(EventType type, const Request& request, int32_t item = -1);
  Request* Find(RequestId id);
  ActionToken NewToken() { return ++last_token_; }
  bool TakeFlight(ActionToken token, Flight::Kind kind, Flight* flight);
  std::vector<RequestId> OpenByArrival() const;
  int32_t EncodersLeft() const;

  const OrchestratorConfig config_;
  const int32_t num_stages_;
  const int32_t max_micro_batches_;
  bool has_encoder_ = false;
  // One worker hosts the only stage and the only encoder, and C follows the load.
  bool alone_ = false;

  EmbeddingTracker tracker_;
  EncoderScheduler encoder_;
  TokenScheduler tokens_;
  KvBlockPool kv_;
  PlaceLedger places_;
  // Blocks that the requests that have not entered still lack, each its number.
  std::multiset<int64_t> kv_lacks_;
  // Requests with pictures to encode of which none was placed, each under the key of the next block
  // that it could reuse, by arrival.
  std::set<std::tuple<KvBlockKey, uint64_t, RequestId>> kv_awaited_;

  absl::flat_hash_map<RequestId, std::unique_ptr<Request>> requests_;
  absl::flat_hash_map<ActionToken, Flight> flights_;
  absl::flat_hash_map<uint64_t, MicroBatch> micro_batches_;
  std::vector<Worker> workers_;
  std::vector<Stage> stages_;
  Rates rates_;
  int64_t budget_q10_ = 0;           // B in 1/1024 token: a mean, see MoveTokenBudget
  int64_t budget_moves_ = 0;         // how many values are in it, until older ones fade
  uint64_t budget_moved_after_ = 0;  // the micro-batch after which it moved last
  int64_t prefill_backlog_ = 0;      // prompt tokens of open requests in no micro-batch yet
  int64_t encode_backlog_ = 0;       // tokens of their units that are not encoded
  // Order::kFeasibleFirst: from when on which request cannot meet the SLO.
  std::set<std::tuple<TimeNs, uint64_t, RequestId>> slo_checks_;
  std::set<std::tuple<TimeNs, uint64_t, RequestId>> deadlines_;
  // EncodeTrigger other than kOnArrival: units that stage 0 waits for before its next micro-batch.
  std::set<UnitRef> awaited_;

  TimeNs now_ns_ = 0;
  ActionSink* sink_ = nullptr;  // during Step
  uint64_t next_arrival_ = 1;
  ActionToken last_token_ = 0;
  uint64_t last_micro_batch_ = 0;
  int32_t prepares_in_flight_ = 0;
  bool look_again_ = false;  // work became possible that this pass may have gone by
  absl::Status refuse_;      // not OK: no new request is accepted
  OrchestratorStats stats_;

  // Scratch, kept for its capacity.
  std::vector<UnitRef> unit_scratch_;
  std::vector<BatchEntry> entry_scratch_;
  std::vector<EmbeddingSlice> slice_scratch_;
  std::vector<StageEntryAction> stage_scratch_;
  std::vector<int32_t> released_scratch_;
  std::vector<RequestId> awaiting_scratch_;
};

}  // namespace rserve

#endif  // RSERVE_SRC_CORE_ORCHESTRATOR_IMPL_H_
