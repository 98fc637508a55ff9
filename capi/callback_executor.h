// An executor that is the host's callbacks.

#ifndef RSERVE_CAPI_CALLBACK_EXECUTOR_H_
#define RSERVE_CAPI_CALLBACK_EXECUTOR_H_

#include <memory>

#include "capi/callbacks.h"
#include "capi/completion_table.h"
#include "rserve/cc/executor.h"
#include "rserve/host.h"

namespace rserve::capi {

using ExecutorCallback = Callback<rserve_executor>;

// Takes the callbacks, also of a struct that is refused: then `status` says why.
ExecutorCallback TakeExecutor(const rserve_executor* executor, absl::Status* status);

class CallbackExecutor final : public Executor {
 public:
  CallbackExecutor(ExecutorCallback callbacks, std::shared_ptr<CompletionTable> completions)
      : callbacks_(std::move(callbacks)), completions_(std::move(completions)) {}

  absl::Status Prepare(UnitRef unit) override;
  void Encode(EncodeJob job, Done done) override;
  void Forward(StageJob job, Done done) override;
  void DropMicroBatch(uint64_t micro_batch) override;
  void ReleasePixels(UnitRef unit) override;
  void ReleaseEmbedding(UnitRef unit) override;
  absl::Status TakeFirstToken(RequestId request, FirstToken* out) override;
  void Forget(RequestId request) override;

 private:
  const rserve_executor& host() const { return callbacks_.get(); }
  // What follows a callback that was given `token`: one that has not started is done already.
  void Started(const char* callback, uint64_t token, rserve_status_t status);

  const ExecutorCallback callbacks_;
  const std::shared_ptr<CompletionTable> completions_;
};

}  // namespace rserve::capi

#endif  // RSERVE_CAPI_CALLBACK_EXECUTOR_H_
