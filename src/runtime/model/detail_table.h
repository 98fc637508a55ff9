// What is known of each request, from its submit until the host acknowledges its end.

#ifndef RSERVE_SRC_RUNTIME_MODEL_DETAIL_TABLE_H_
#define RSERVE_SRC_RUNTIME_MODEL_DETAIL_TABLE_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rserve/cc/engine.h"
#include "rserve/cc/model_engine.h"

namespace rserve::runtime {

// Thread-safe. A detail does not change any more once the terminal event has been recorded.
class DetailTable {
 public:
  // False, and nothing changes, when there is one of that request. `discard`: the terminal event
  // acknowledges it.
  bool Add(RequestDetail detail, bool discard);
  void Remove(RequestId request);  // no-op when it is not there

  // Results of the last stage; no-op for a request that is not there or has ended.
  void SetFirstToken(RequestId request, const FirstToken& first, std::vector<float> logits,
                     std::vector<float> embeddings);
  void Record(const Event& event);

  // NOT_FOUND names the request.
  absl::StatusOr<std::shared_ptr<const RequestDetail>> Get(RequestId request) const;
  absl::Status Acknowledge(RequestId request);
  int64_t ended() const;  // ended and not acknowledged

 private:
  struct Entry {
    RequestDetail detail;
    bool discard = false;
    bool ended = false;
  };

  mutable std::mutex mutex_;
  absl::flat_hash_map<RequestId, std::unique_ptr<Entry>> entries_ ABSL_GUARDED_BY(mutex_);
  int64_t ended_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace rserve::runtime

#endif  // RSERVE_SRC_RUNTIME_MODEL_DETAIL_TABLE_H_
