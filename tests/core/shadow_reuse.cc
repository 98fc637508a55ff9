// KV blocks: whose they are, what they hold, and what may be reused of it (invariant 8).

#include <algorithm>

#include "tests/core/shadow_model.h"

namespace rserve::test {

int64_t ShadowModel::MayReuse(const ShadowRequest& request) const {
  const RequestPlan& plan = request.shape.plan();
  const int64_t block = config_.budgets.kv_block_tokens;
  const int64_t most = (plan.prompt_tokens - 1) / block;
  int64_t blocks = 0;
  for (const KvBlockKey& key : plan.kv_block_keys) {
    if (blocks == most || !written_.contains(key)) break;
    ++blocks;
  }
  return blocks * block;
}

void ShadowModel::AcceptReuse(const EventAction& event, ShadowRequest* request) {
  const int64_t tokens = event.reused_tokens;
  if (tokens == 0) return;
  const RequestPlan& plan = request->shape.plan();
  if (tokens < 0 || tokens % config_.budgets.kv_block_tokens != 0 || tokens > MayReuse(*request) ||
      request->shape.CutsAtomic(tokens)) {
    return Fail("8", "r", request->id(), " reuses ", tokens, " tokens of ", plan.prompt_tokens,
                "; written are ", MayReuse(*request));
  }
  Hit(Reached::kPrefixReused);
  request->reused = request->scheduled = request->committed = tokens;
  for (int32_t u = 0; u < request->shape.num_units(); ++u) {
    if (request->shape.end_read(u) > tokens) {
      if (request->shape.first_read(u) < tokens) Hit(Reached::kUnitPartlyCovered);
      continue;
    }
    Cover(request, u);
    Hit(Reached::kUnitCovered);
  }
  request->frontier = request->shape.FrontierOf(request->encoded, tokens);
}

bool ShadowModel::NoneBegun(const ShadowRequest& request) const {
  return !request.entered &&
         std::all_of(request.units.begin(), request.units.end(), [](const ShadowUnit& unit) {
           return (unit.state == ShadowUnit::State::kWaiting && unit.attempts == 0) ||
                  unit.state == ShadowUnit::State::kCovered;
         });
}

void ShadowModel::Cover(ShadowRequest* request, int32_t unit) {
  request->units[unit].state = ShadowUnit::State::kCovered;
  request->encoded[unit] = true;
  request->units_encoded += 1;
  request->frontier = request->shape.FrontierOf(request->encoded, request->reused);
}

void ShadowModel::CheckEnter(const StageEntryAction& entry, ShadowRequest* request) {
  const int64_t block_tokens = config_.budgets.kv_block_tokens;
  const int64_t reused = entry.chunk.begin;
  const RequestPlan& plan = request->shape.plan();
  if (reused % block_tokens != 0 || request->shape.CutsAtomic(reused) ||
      reused / block_tokens > static_cast<int64_t>(plan.kv_block_keys.size())) {
    return Fail("8", "r", request->id(), " begins at token ", reused);
  }
  if (reused > request->reused) Hit(Reached::kPrefixReusedAtEntry);
  for (int32_t u = 0; u < request->shape.num_units(); ++u) {
    if (request->units[u].state == ShadowUnit::State::kCovered &&
        request->shape.end_read(u) > reused) {
      return Fail("8", "r", request->id(), " begins at token ", reused, " and reads unit ", u,
                  ", which was never encoded");
    }
  }
  request->entered = true;
  request->reuse_open = false;
  request->reused = request->scheduled = request->committed = reused;
  request->frontier = request->shape.FrontierOf(request->encoded, reused);
  reused_tokens_ += reused;
  request->kv_table.assign(entry.kv_blocks.begin(), entry.kv_blocks.end());
  if (static_cast<int64_t>(request->kv_table.size()) != KvNeed(*request)) {
    return Fail("4", "r", request->id(), " has ", request->kv_table.size(), " KV blocks, needs ",
                KvNeed(*request));
  }
  for (size_t i = 0; i < request->kv_table.size(); ++i) {
    const int32_t number = request->kv_table[i];
    if (number < 0 || number >= static_cast<int32_t>(blocks_.size())) {
      return Fail("4", "r", request->id(), " has KV block ", number, " of ", blocks_.size());
    }
    ShadowBlock& block = blocks_[number];
    if (std::find(block.owners.begin(), block.owners.end(), request) != block.owners.end()) {
      return Fail("8", "r", request->id(), " has KV block ", number, " twice");
    }
    const bool shared = static_cast<int64_t>(i) < reused / block_tokens;
    if (shared && (!block.written || block.key != plan.kv_block_keys[i])) {
      return Fail("8", "r", request->id(), " reuses KV block ", number, " as its block ", i,
                  block.written ? ", which holds something else" : ", which is not written");
    }
    for (const ShadowRequest* owner : block.owners) {
      if (!KvTouched(*owner)) continue;
      if (!shared) {
        return Fail("6", "KV block ", number, " is given to r", request->id(), " while r",
                    owner->id(), " has it");
      }
      Hit(Reached::kBlockSharedInUse);
    }
    if (!shared) Overwrite(&block);
    block.owners.push_back(request);
  }
}

void ShadowModel::Overwrite(ShadowBlock* block) {
  block->owners.clear();
  if (!block->written) return;
  block->written = false;
  const auto it = written_.find(block->key);
  if (--it->second == 0) written_.erase(it);
}

// The tokens [begin, end) of the request are through the last stage.
void ShadowModel::NoteWritten(const ShadowRequest& request, int64_t begin, int64_t end) {
  if (request.ended || request.must_end) return;  // later stages may have left it out
  const int64_t block_tokens = config_.budgets.kv_block_tokens;
  const auto& keys = request.shape.plan().kv_block_keys;
  const int64_t full = std::min<int64_t>(end / block_tokens, static_cast<int64_t>(keys.size()));
  for (int64_t i = begin / block_tokens; i < full; ++i) {
    ShadowBlock& block = blocks_[request.kv_table[i]];
    block.written = true;
    block.key = keys[i];
    ++written_[block.key];
  }
  for (const auto& other : requests_) {
    if (other->units_encoded == other->shape.num_units() || !NoneBegun(*other)) continue;
    other->reuse_open = other->reuse_open || MayReuse(*other) > other->reused;
  }
}

bool ShadowModel::Owns(const ShadowRequest& request, int32_t block) const {
  const std::vector<ShadowRequest*>& owners = blocks_[block].owners;
  return std::find(owners.begin(), owners.end(), &request) != owners.end();
}

int64_t ShadowModel::KvNeed(const ShadowRequest& request) const {
  const RequestPlan& plan = request.shape.plan();
  const int64_t block = config_.budgets.kv_block_tokens;
  return (plan.prompt_tokens + plan.max_new_tokens + block - 1) / block;
}

bool ShadowModel::KvTouched(const ShadowRequest& request) const {
  if (MustKeep(request)) return request.entered;
  return std::any_of(batches_.begin(), batches_.end(), [&](const ShadowMicroBatch& batch) {
    return batch.out && std::any_of(batch.entries.begin(), batch.entries.end(),
                                    [&](const auto& entry) { return entry.request == &request; });
  });
}

int64_t ShadowModel::KvTaken(bool surely) const {
  int64_t blocks = 0;
  std::vector<bool> seen;
  for (const auto& request : requests_) {
    if (!request->entered || (surely && !KvTouched(*request))) continue;
    if (seen.empty()) seen.resize(blocks_.size());
    for (const int32_t block : request->kv_table) {
      blocks += seen[block] ? 0 : 1;
      seen[block] = true;
    }
  }
  return blocks;
}

int64_t ShadowModel::KvHeld() const {
  int64_t blocks = 0;
  for (const auto& request : requests_) {
    if (request->entered || request->ended || request->shape.plan().kv_block_keys.empty()) continue;
    blocks += MayReuse(*request) / config_.budgets.kv_block_tokens;
  }
  return blocks;
}

}  // namespace rserve::test
