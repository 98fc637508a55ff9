// KvBlockPool: which KV cache blocks are whose, and what those hold that are nobody's. Accounts for
// blocks; owns no memory.
//
// A block is free, in one or several tables, or cached: in no table, but published, so that a
// request with the same key can share what it holds. Cached blocks count as free. They are given
// out again when no other is left, the one that was used longest ago first; a table's last block
// counts as used before its first one, so what is left of a prompt is a prefix.

#ifndef RSERVE_CC_KV_BLOCK_POOL_H_
#define RSERVE_CC_KV_BLOCK_POOL_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/node_hash_map.h"
#include "absl/types/span.h"
#include "rserve/cc/request_plan.h"

namespace rserve {

// Blocks that hold `tokens` (>= 0) tokens.
constexpr int64_t KvBlocksFor(int64_t tokens, int64_t block_tokens) {
  return tokens / block_tokens + (tokens % block_tokens != 0 ? 1 : 0);
}

// Not thread-safe; no I/O. Blocks are handed out in a fixed order, so that the same calls give the
// same block tables.
//
// Invariants
//   K1. Every block is free, cached, or in as many tables as share it and one more.
//   K2. A published block holds its key until it is given out anew; it is given out only when it is
//       in no table.
//   K3. No two blocks are published under one key.
class KvBlockPool {
 public:
  // `num_blocks` >= 0, `block_tokens` >= 1.
  KvBlockPool(int32_t num_blocks, int32_t block_tokens);

  int64_t BlocksFor(int64_t tokens) const { return KvBlocksFor(tokens, block_tokens_); }
  bool CanAllocate(int64_t blocks) const { return blocks <= free_blocks(); }
  // Appends `blocks` block numbers to `table`; false, and nothing taken, when fewer are free.
  bool Allocate(int64_t blocks, std::vector<int32_t>* table);
  // Gives all blocks of the table back and clears it.
  void Free(std::vector<int32_t>* table);

  // ---- Reuse

  // The block, which is in a table, holds what the key names and will not be written any more.
  // Another one that does already stays the one that is found.
  void Publish(int32_t block, const KvBlockKey& key);
  // How many of the keys, from the first on, name published blocks, such that no more than
  // `max_held` blocks would be held that are not yet.
  int64_t Match(absl::Span<const KvBlockKey> keys, int64_t max_held) const;
  // Appends the blocks of the keys, which must have matched, to the table of a request that has not
  // entered: it shares and holds them.
  void Hold(absl::Span<const KvBlockKey> keys, std::vector<int32_t>* table);
  // The request of these blocks has entered or ended: it does not hold them any more. They stay in
  // its table.
  void EndHold(absl::Span<const int32_t> blocks);

  int32_t num_blocks() const { return num_blocks_; }
  int32_t block_tokens() const { return block_tokens_; }
  int64_t free_blocks() const { return static_cast<int64_t>(free_.size()) + cached_; }
  int64_t cached_blocks() const { return cached_; }
  int64_t held_blocks() const { return held_; }  // each counted once
  int64_t used_blocks() const { return num_blocks_ - free_blocks(); }
  int64_t peak_used_blocks() const { return peak_used_; }
  int64_t evictions() const { return evictions_; }  // published blocks given out anew

 private:
  // Kept from the first published block on; until then each block is in one table at most.
  struct Block {
    int32_t shares = 0;  // tables beyond the first
    int32_t holds = 0;
    int32_t before = -1, after = -1;  // cached blocks, by the time of their last use
    const KvBlockKey* key = nullptr;  // published: the map's own
    bool cached = false;
  };
  struct KeyHash {
    size_t operator()(const KvBlockKey& key) const;
  };

  void PutIntoCache(int32_t block);
  void TakeOutOfCache(int32_t block);
  int32_t Evict();

  const int32_t num_blocks_;
  const int32_t block_tokens_;
  std::vector<int32_t> free_;  // a stack: the last one given back goes out first
  int64_t peak_used_ = 0;
  std::vector<Block> blocks_;
  absl::node_hash_map<KvBlockKey, int32_t, KeyHash> by_key_;
  int32_t oldest_ = -1, newest_ = -1;  // of the cached ones
  int64_t cached_ = 0;
  int64_t held_ = 0;
  int64_t evictions_ = 0;
};

}  // namespace rserve

#endif  // RSERVE_CC_KV_BLOCK_POOL_H_
