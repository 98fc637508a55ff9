// HostEngine: an Engine over an executor of the host's, with the details of its requests, so that
// it can be asked the same things as a ModelEngine.

#ifndef RSERVE_SRC_RUNTIME_HOST_HOST_ENGINE_H_
#define RSERVE_SRC_RUNTIME_HOST_HOST_ENGINE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rserve/cc/engine.h"
#include "rserve/cc/model_engine.h"
#include "src/runtime/model/detail_table.h"

namespace rserve::runtime {

// Thread rules as Engine.
class HostEngine {
 public:
  // As Engine::Create.
  static absl::StatusOr<std::unique_ptr<HostEngine>> Create(EngineOptions options,
                                                            std::unique_ptr<Executor> executor);

  // As Engine::Submit; `plan.id` is the host's. RESOURCE_EXHAUSTED also when the details of
  // kMaxUnacknowledged ended requests are not acknowledged. `discard_detail`: acknowledged by the
  // Poll that returns its terminal event.
  absl::Status Submit(RequestPlan plan, uint64_t user_data, bool discard_detail);

  int64_t Poll(int64_t capacity, std::vector<Event>* events);
  absl::Status Cancel(RequestId request) { return engine_->Cancel(request); }
  void Drain() { engine_->Drain(); }
  void Abort() { engine_->Abort(); }
  int wait_fd() const { return engine_->wait_fd(); }
  TimeNs next_deadline_ns() const { return engine_->next_deadline_ns(); }
  OrchestratorStats stats() const { return engine_->stats(); }
  bool idle() const { return engine_->idle(); }

  absl::StatusOr<std::shared_ptr<const RequestDetail>> Detail(RequestId request) const {
    return details_.Get(request);
  }
  absl::Status Acknowledge(RequestId request) { return details_.Acknowledge(request); }

  static constexpr int64_t kMaxUnacknowledged = 65536;

 private:
  explicit HostEngine(int32_t kv_block_tokens) : kv_block_tokens_(kv_block_tokens) {}

  const int32_t kv_block_tokens_;
  DetailTable details_;
  std::unique_ptr<Engine> engine_;
};

}  // namespace rserve::runtime

#endif  // RSERVE_SRC_RUNTIME_HOST_HOST_ENGINE_H_
