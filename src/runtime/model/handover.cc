#include "src/runtime/model/handover.h"

#include <algorithm>
#include <utility>

#include "absl/numeric/bits.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace rserve::runtime {

namespace {

constexpr int64_t kMinTokens = 64;

// Micro-batches differ by a few tokens all the time; buffers of powers of two fit again.
int64_t RoundedTokens(int64_t tokens) {
  return static_cast<int64_t>(absl::bit_ceil(static_cast<uint64_t>(std::max(tokens, kMinTokens))));
}

}  // namespace

Handover::Handover(int64_t hidden_size, int64_t max_tokens, int64_t max_buffers)
    : hidden_size_(hidden_size),
      pool_("token_budget", max_buffers * RoundedTokens(max_tokens) * hidden_size *
                                static_cast<int64_t>(sizeof(float))) {}

absl::StatusOr<PooledBuffer> Handover::NewBuffer(int64_t tokens) {
  return pool_.Take(RoundedTokens(tokens) * hidden_size_);
}

void Handover::Put(uint64_t micro_batch, PooledBuffer buffer) {
  std::lock_guard<std::mutex> lock(mutex_);
  buffers_[micro_batch] = std::move(buffer);
}

absl::StatusOr<PooledBuffer> Handover::Take(uint64_t micro_batch) {
  std::lock_guard<std::mutex> lock(mutex_);
  auto it = buffers_.find(micro_batch);
  if (it == buffers_.end()) {
    return absl::InternalError(
        absl::StrCat("micro-batch ", micro_batch, " has no hidden states from the stage before"));
  }
  PooledBuffer buffer = std::move(it->second);
  buffers_.erase(it);
  return buffer;
}

void Handover::Drop(uint64_t micro_batch) {
  std::lock_guard<std::mutex> lock(mutex_);
  buffers_.erase(micro_batch);
}

}  // namespace rserve::runtime
