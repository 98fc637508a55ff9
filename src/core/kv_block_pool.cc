#include "rserve/cc/kv_block_pool.h"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace rserve {

size_t KvBlockPool::KeyHash::operator()(const KvBlockKey& key) const {
  size_t value = 0;  // the key is a digest: any of its bytes are a hash
  std::memcpy(&value, key.data(), sizeof(value));
  return value;
}

KvBlockPool::KvBlockPool(int32_t num_blocks, int32_t block_tokens)
    : num_blocks_(num_blocks), block_tokens_(block_tokens) {
  free_.resize(static_cast<size_t>(num_blocks));
  std::iota(free_.begin(), free_.end(), 0);
}

bool KvBlockPool::Allocate(int64_t blocks, std::vector<int32_t>* table) {
  if (blocks > free_blocks()) return false;
  const int64_t unused = std::min(blocks, static_cast<int64_t>(free_.size()));
  // In the order in which they lie: one copy, and ascending numbers from a fresh pool.
  table->insert(table->end(), free_.end() - unused, free_.end());
  free_.resize(free_.size() - static_cast<size_t>(unused));
  for (int64_t i = unused; i < blocks; ++i) table->push_back(Evict());
  peak_used_ = std::max(peak_used_, used_blocks());
  return true;
}

void KvBlockPool::Free(std::vector<int32_t>* table) {
  if (blocks_.empty()) {
    free_.insert(free_.end(), table->begin(), table->end());
    table->clear();
    return;
  }
  // Last block first: of what is cached the ends go before the beginnings that they need.
  const auto before = static_cast<std::ptrdiff_t>(free_.size());
  for (size_t i = table->size(); i-- > 0;) {
    const int32_t number = (*table)[i];
    Block& block = blocks_[number];
    if (block.shares > 0) {
      --block.shares;
    } else if (block.key != nullptr) {
      PutIntoCache(number);
    } else {
      free_.push_back(number);
    }
  }
  std::reverse(free_.begin() + before, free_.end());
  table->clear();
}

void KvBlockPool::Publish(int32_t number, const KvBlockKey& key) {
  if (blocks_.empty()) blocks_.resize(static_cast<size_t>(num_blocks_));
  const auto [it, added] = by_key_.emplace(key, number);
  if (added) blocks_[number].key = &it->first;
}

int64_t KvBlockPool::Match(absl::Span<const KvBlockKey> keys, int64_t max_held) const {
  int64_t matched = 0, held = 0;
  for (const KvBlockKey& key : keys) {
    const auto it = by_key_.find(key);
    if (it == by_key_.end()) break;
    if (blocks_[it->second].holds == 0 && ++held > max_held) break;
    ++matched;
  }
  return matched;
}

void KvBlockPool::Hold(absl::Span<const KvBlockKey> keys, std::vector<int32_t>* table) {
  for (const KvBlockKey& key : keys) {
    const int32_t number = by_key_.find(key)->second;
    Block& block = blocks_[number];
    if (block.cached) {
      TakeOutOfCache(number);
    } else {
      ++block.shares;
    }
    if (block.holds++ == 0) ++held_;
    table->push_back(number);
  }
  peak_used_ = std::max(peak_used_, used_blocks());
}

void KvBlockPool::EndHold(absl::Span<const int32_t> blocks) {
  for (const int32_t number : blocks) {
    if (--blocks_[number].holds == 0) --held_;
  }
}

void KvBlockPool::PutIntoCache(int32_t number) {
  Block& block = blocks_[number];
  block.cached = true;
  block.before = newest_;
  block.after = -1;
  (newest_ >= 0 ? blocks_[newest_].after : oldest_) = number;
  newest_ = number;
  ++cached_;
}

void KvBlockPool::TakeOutOfCache(int32_t number) {
  Block& block = blocks_[number];
  block.cached = false;
  (block.before >= 0 ? blocks_[block.before].after : oldest_) = block.after;
  (block.after >= 0 ? blocks_[block.after].before : newest_) = block.before;
  --cached_;
}

int32_t KvBlockPool::Evict() {
  const int32_t number = oldest_;
  TakeOutOfCache(number);
  by_key_.erase(by_key_.find(*blocks_[number].key));
  blocks_[number].key = nullptr;
  ++evictions_;
  return number;
}

}  // namespace rserve
