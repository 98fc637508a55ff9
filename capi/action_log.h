// ActionLog: the actions of a step, kept so that a host can pull them one by one.

#ifndef RSERVE_CAPI_ACTION_LOG_H_
#define RSERVE_CAPI_ACTION_LOG_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <unordered_map>
#include <vector>

#include "capi/host_work.h"
#include "rserve/cc/orchestrator.h"
#include "rserve/host.h"

namespace rserve::capi {

class ActionLog final : public ActionSink {
 public:
  // A submit was queued; its ACCEPTED or REFUSED event comes in the order of these calls.
  void Submitted(uint64_t user_data) { submitted_.push_back(user_data); }

  // Forgets the actions of the step before.
  void Clear();
  // The next action, NONE after the last. Valid until Clear.
  const rserve_action& Next();

  void OnPrepare(const PrepareAction& action) override;
  void OnEncode(const EncodeAction& action) override;
  void OnStage(const StageAction& action) override;
  void OnMicroBatchDropped(uint64_t micro_batch) override;
  void OnReleasePixels(UnitRef unit) override;
  void OnReleaseEmbedding(UnitRef unit) override;
  void OnEvent(const EventAction& event) override;
  void OnForget(RequestId request) override;

 private:
  // An action with what it points to. Never moves.
  struct Record {
    rserve_action action;
    std::vector<rserve_unit_ref> units;
    StageEntries entries;
    std::string message;
    rserve_request_times times;
  };

  // A record of the kind, everything else 0.
  Record& New(rserve_action_kind_t kind);
  void AddRelease(rserve_action_kind_t kind, UnitRef unit);

  std::deque<Record> records_;  // the first used_ are of this step; the others keep their memory
  size_t used_ = 0;
  size_t next_ = 0;
  std::deque<uint64_t> submitted_;
  std::unordered_map<uint64_t, uint64_t> user_data_;  // of accepted requests
};

}  // namespace rserve::capi

#endif  // RSERVE_CAPI_ACTION_LOG_H_
