#include "rserve/cc/kv_block_pool.h"

#include <algorithm>

namespace rserve {

KvBlockPool::KvBlockPool(int32_t num_blocks, int32_t block_tokens)
    : num_blocks_(num_blocks), block_tokens_(block_tokens) {
  // Block 0 lies on top, so that a fresh pool gives out ascending numbers.
  free_.reserve(static_cast<size_t>(num_blocks));
  for (int32_t block = num_blocks; block-- > 0;) free_.push_back(block);
}

int64_t KvBlockPool::BlocksFor(int64_t tokens) const {
  return tokens / block_tokens_ + (tokens % block_tokens_ != 0 ? 1 : 0);
}

bool KvBlockPool::Allocate(int64_t blocks, std::vector<int32_t>* table) {
  if (blocks > free_blocks()) return false;
  table->insert(table->end(), free_.rbegin(), free_.rbegin() + blocks);
  free_.resize(free_.size() - static_cast<size_t>(blocks));
  peak_used_ = std::max(peak_used_, used_blocks());
  return true;
}

void KvBlockPool::Free(std::vector<int32_t>* table) {
  free_.insert(free_.end(), table->rbegin(), table->rend());
  table->clear();
}

}  // namespace rserve
