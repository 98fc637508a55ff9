#include "capi/completion_table.h"

#include <utility>

namespace rserve::capi {

uint64_t CompletionTable::Add(Done done) {
  std::lock_guard<std::mutex> lock(mutex_);
  dones_.emplace_hint(dones_.end(), ++last_token_, std::move(done));
  return last_token_;
}

bool CompletionTable::Take(uint64_t token, Done* done) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto it = dones_.find(token);
  if (it == dones_.end()) return false;
  *done = std::move(it->second);
  dones_.erase(it);
  return true;
}

}  // namespace rserve::capi
