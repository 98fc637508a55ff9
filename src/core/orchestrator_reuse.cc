// KV that others wrote: what a request takes of it, and what it leaves to those that follow.
//
// A request looks for the longest prefix of its blocks that is there when it is submitted, so that
// what the prefix covers is never prepared or encoded. As long as none of its units has a place it
// looks again whenever a block is written that it could go on with. Once one has, what is under way
// is brought to its end, and it looks once more before it enters, among the tokens that are ready.

#include <algorithm>

#include "src/core/orchestrator_impl.h"

namespace rserve {

int64_t Orchestrator::Impl::KvNeed(const Request& r) const {
  return kv_.BlocksFor(r.plan.prompt_tokens + r.plan.max_new_tokens);
}

void Orchestrator::Impl::WaitForKv(Request& r) {
  r.kv_lacks = KvNeed(r) - static_cast<int64_t>(r.kv_blocks.size());
  kv_lacks_.insert(r.kv_lacks);
}

void Orchestrator::Impl::EndWaitForKv(Request& r) {
  if (r.kv_lacks < 0) return;
  kv_lacks_.erase(kv_lacks_.find(r.kv_lacks));
  r.kv_lacks = -1;
}

// Takes hold of what is there of the tokens before `end`. The request must not be among those that
// wait for KV. Rule (d) of the deadlock argument: together with what others lack it fits the pool.
void Orchestrator::Impl::HoldReusable(Request& r, int64_t end) {
  const int64_t block_tokens = kv_.block_tokens();
  const auto held = static_cast<int64_t>(r.kv_blocks.size());
  auto keys = absl::MakeConstSpan(r.plan.kv_block_keys);
  keys = keys.subspan(
      0, std::min(keys.size(), static_cast<size_t>(std::max<int64_t>(end, 0) / block_tokens)));
  if (static_cast<int64_t>(keys.size()) <= held) return;
  keys = keys.subspan(static_cast<size_t>(held));
  const int64_t lacks = kv_lacks_.empty() ? 0 : *kv_lacks_.rbegin();
  const int64_t room = kv_.num_blocks() - kv_.held_blocks() - lacks;
  // What others hold already would be held for longer: that too is not for a request to take where
  // the sum does not fit.
  if (room < 0) return;
  int64_t blocks = held + kv_.Match(keys, room);
  // An atomic span is reused whole or not at all.
  for (int64_t whole = 0; whole != blocks;) {
    whole = blocks;
    blocks = r.layout.WholeUpTo(blocks * block_tokens) / block_tokens;
  }
  if (blocks <= held) return;
  kv_.Hold(keys.subspan(0, static_cast<size_t>(blocks - held)), &r.kv_blocks);
  r.reused_tokens = blocks * block_tokens;
}

// The next `tokens` tokens are held. Nothing of the request is on its way yet.
void Orchestrator::Impl::SkipReused(Request& r, int64_t tokens) {
  const RequestId id = r.plan.id;
  released_scratch_.clear();
  tracker_.Skip(id, tokens, &released_scratch_);
  tokens_.Skip(id, tokens);
  r.layout = BuildUnitLayout(r.plan, r.reused_tokens);
  for (size_t u = 0; u < r.units.size(); ++u) {
    if (r.units[u].encoded || r.layout.last_token[u] > r.reused_tokens) continue;
    const UnitPlan& unit = r.plan.units[u];
    r.units[u].encoded = true;
    --r.units_to_encode;
    r.encode_tokens -= unit.tokens;
    sink_->OnReleasePixels({id, static_cast<int32_t>(u)});
    if (--r.item_units_to_encode[unit.item] == 0) Emit(EventType::kItemEncoded, r, unit.item);
    ReleaseInputOfUnit(r, static_cast<int32_t>(u));
  }
}

void Orchestrator::Impl::AwaitKv(Request& r) {
  const std::vector<KvBlockKey>& keys = r.plan.kv_block_keys;
  const size_t next = r.kv_blocks.size();
  const auto end = static_cast<int64_t>(next + 1) * kv_.block_tokens();
  if (r.units_to_encode == 0 || next >= keys.size() || end >= r.plan.prompt_tokens) return;
  r.kv_awaited = static_cast<int64_t>(next);
  kv_awaited_.insert({keys[next], r.arrival, r.plan.id});
}

void Orchestrator::Impl::EndAwaitKv(Request& r) {
  if (r.kv_awaited < 0) return;
  const auto block = static_cast<size_t>(r.kv_awaited);
  kv_awaited_.erase({r.plan.kv_block_keys[block], r.arrival, r.plan.id});
  r.kv_awaited = -1;
}

// The block that the request awaits is written: as at the submit, but that it has its place in all
// the orders.
void Orchestrator::Impl::ReuseWhileWaiting(Request& r) {
  const RequestId id = r.plan.id;
  const int64_t before = r.reused_tokens;
  EndAwaitKv(r);
  EndWaitForKv(r);
  HoldReusable(r, r.plan.prompt_tokens - 1);
  WaitForKv(r);
  const int64_t tokens = r.reused_tokens - before;
  if (tokens > 0) {
    const int64_t encode_tokens = r.encode_tokens;
    tokens_.SetSchedulable(id, 0);
    encoder_.Remove(id);
    SkipReused(r, tokens);
    places_.Relayout(id);
    QueueForEncode(r);
    UpdateSchedulable(r);
    prefill_backlog_ -= tokens;
    encode_backlog_ -= encode_tokens - r.encode_tokens;
    UpdateOrder(r);
  }
  AwaitKv(r);
}

void Orchestrator::Impl::ReuseBeforeEntry(Request& r) {
  const RequestId id = r.plan.id;
  const int64_t before = r.reused_tokens;
  const bool awaits = r.kv_awaited >= 0;
  EndAwaitKv(r);
  EndWaitForKv(r);
  // Of what is ready one token is left to give, so that the request stays where it is in order.
  HoldReusable(r, tracker_.Frontier(id) - 1);
  WaitForKv(r);
  if (awaits) AwaitKv(r);
  const int64_t tokens = r.reused_tokens - before;
  if (tokens == 0) return;
  released_scratch_.clear();
  tracker_.Skip(id, tokens, &released_scratch_);
  tokens_.Skip(id, tokens);
  prefill_backlog_ -= tokens;
  for (int32_t unit : released_scratch_) {
    places_.ReleaseEmbedding(id, r.plan.units[unit].embedding_bytes);
    sink_->OnReleaseEmbedding({id, unit});
    look_again_ = true;
  }
}

// All stages have written the tokens before `end`.
void Orchestrator::Impl::PublishKv(Request& r, int64_t end) {
  const std::vector<KvBlockKey>& keys = r.plan.kv_block_keys;
  const int64_t full = std::min(static_cast<int64_t>(keys.size()), end / kv_.block_tokens());
  const auto first = static_cast<size_t>(r.kv_published);
  for (; r.kv_published < full; ++r.kv_published) {
    const auto i = static_cast<size_t>(r.kv_published);
    kv_.Publish(r.kv_blocks[i], keys[i]);
  }
  if (kv_awaited_.empty()) return;
  awaiting_scratch_.clear();
  for (auto i = first; i < static_cast<size_t>(r.kv_published); ++i) {
    for (auto it = kv_awaited_.lower_bound({keys[i], 0, 0});
         it != kv_awaited_.end() && std::get<0>(*it) == keys[i]; ++it) {
      awaiting_scratch_.push_back(std::get<2>(*it));
    }
  }
  for (const RequestId id : awaiting_scratch_) ReuseWhileWaiting(*Find(id));
}

}  // namespace rserve
