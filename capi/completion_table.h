// The ends of actions that a host's executor is at work on, by token.

#ifndef RSERVE_CAPI_COMPLETION_TABLE_H_
#define RSERVE_CAPI_COMPLETION_TABLE_H_

#include <cstdint>
#include <map>
#include <mutex>

#include "absl/base/thread_annotations.h"
#include "rserve/cc/executor.h"

namespace rserve::capi {

// Thread-safe. Tokens are never reused.
class CompletionTable {
 public:
  uint64_t Add(Done done);
  // False when the token is unknown or was taken. The caller calls `done`, without a lock held.
  bool Take(uint64_t token, Done* done);

 private:
  std::mutex mutex_;
  std::map<uint64_t, Done> dones_ ABSL_GUARDED_BY(mutex_);
  uint64_t last_token_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace rserve::capi

#endif  // RSERVE_CAPI_COMPLETION_TABLE_H_
