#include "rserve/cc/kv_block_pool.h"

#include <algorithm>
#include <numeric>

namespace rserve {

KvBlockPool::KvBlockPool(int32_t num_blocks, int32_t block_tokens)
    : num_blocks_(num_blocks), block_tokens_(block_tokens) {
  free_.resize(static_cast<size_t>(num_blocks));
  std::iota(free_.begin(), free_.end(), 0);
}

int64_t KvBlockPool::BlocksFor(int64_t tokens) const {
  return tokens / block_tokens_ + (tokens % block_tokens_ != 0 ? 1 : 0);
}

bool KvBlockPool::Allocate(int64_t blocks, std::vector<int32_t>* table) {
  if (blocks > free_blocks()) return false;
  // In the order in which they lie: one copy, and ascending numbers from a fresh pool.
  table->insert(table->end(), free_.end() - blocks, free_.end());
  free_.resize(free_.size() - static_cast<size_t>(blocks));
  peak_used_ = std::max(peak_used_, used_blocks());
  return true;
}

void KvBlockPool::Free(std::vector<int32_t>* table) {
  free_.insert(free_.end(), table->begin(), table->end());
  table->clear();
}

}  // namespace rserve
