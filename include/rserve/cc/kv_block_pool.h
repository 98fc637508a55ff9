// KvBlockPool: which KV cache blocks are whose. Accounts for blocks; owns no memory.

#ifndef RSERVE_CC_KV_BLOCK_POOL_H_
#define RSERVE_CC_KV_BLOCK_POOL_H_

#include <cstdint>
#include <vector>

namespace rserve {

// Not thread-safe; no I/O. Blocks are handed out in a fixed order, so that the same calls give the
// same block tables.
class KvBlockPool {
 public:
  // `num_blocks` >= 0, `block_tokens` >= 1.
  KvBlockPool(int32_t num_blocks, int32_t block_tokens);

  int64_t BlocksFor(int64_t tokens) const;  // rounded up
  bool CanAllocate(int64_t blocks) const { return blocks <= free_blocks(); }
  // Appends `blocks` block numbers to `table`; false, and nothing taken, when fewer are free.
  bool Allocate(int64_t blocks, std::vector<int32_t>* table);
  // Gives all blocks of the table back and clears it.
  void Free(std::vector<int32_t>* table);

  int32_t num_blocks() const { return num_blocks_; }
  int32_t block_tokens() const { return block_tokens_; }
  int64_t free_blocks() const { return static_cast<int64_t>(free_.size()); }
  int64_t used_blocks() const { return num_blocks_ - free_blocks(); }
  int64_t peak_used_blocks() const { return peak_used_; }

 private:
  const int32_t num_blocks_;
  const int32_t block_tokens_;
  std::vector<int32_t> free_;  // a stack: the last one given back goes out first
  int64_t peak_used_ = 0;
};

}  // namespace rserve

#endif  // RSERVE_CC_KV_BLOCK_POOL_H_
