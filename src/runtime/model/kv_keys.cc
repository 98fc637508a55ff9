#include "src/runtime/model/kv_keys.h"

#include <algorithm>
#include <cstddef>

#include "src/runtime/model/sha256.h"

namespace rserve::runtime {

namespace {

// Changed whenever the same tokens would give other keys and values.
constexpr uint64_t kKeyVersion = 1;

// Prompt tokens that take neighbouring rows of one unit.
struct UnitTokens {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t first_row = 0;  // within the unit
  const Digest* unit = nullptr;
};

std::vector<UnitTokens> FindUnits(const RequestState& state, const RequestPlan& plan) {
  std::vector<size_t> first_unit(static_cast<size_t>(plan.num_items), 0);
  for (size_t u = plan.units.size(); u-- > 0;) {
    first_unit[static_cast<size_t>(plan.units[u].item)] = u;
  }
  std::vector<UnitTokens> found;
  for (const SpanPlan& span : plan.spans) {
    size_t u = first_unit[static_cast<size_t>(span.item)];
    int64_t row = span.row_begin;
    for (; row >= plan.units[u].tokens; ++u) row -= plan.units[u].tokens;
    for (int64_t done = 0; done < span.tokens; ++u) {
      const int64_t tokens = std::min(span.tokens - done, plan.units[u].tokens - row);
      const int64_t begin = span.token_begin + done;
      found.push_back({begin, begin + tokens, row, &*state.units[u].key});
      done += tokens;
      row = 0;
    }
  }
  return found;
}

Digest Root(const RequestState& state, const model::ModelConfig& model) {
  Sha256 hash;
  hash.AddInt(kKeyVersion);
  hash.AddText(state.cache_salt);
  hash.AddText(model.model_type);
  hash.AddInt(static_cast<uint64_t>(model.text.num_layers));
  hash.AddInt(static_cast<uint64_t>(model.text.hidden_size));
  return hash.Finish();
}

}  // namespace

std::vector<KvBlockKey> KvBlockKeys(const RequestState& state, const RequestPlan& plan,
                                    const model::ModelConfig& model, int32_t block_tokens) {
  const std::vector<UnitTokens> units = FindUnits(state, plan);
  auto next = units.begin();
  std::vector<KvBlockKey> keys;
  keys.reserve(static_cast<size_t>(plan.prompt_tokens / block_tokens));
  Digest parent = Root(state, model);
  for (int64_t begin = 0; begin + block_tokens <= plan.prompt_tokens; begin += block_tokens) {
    const int64_t end = begin + block_tokens;
    Sha256 hash;
    hash.Add(parent);
    for (int64_t token = begin; token < end; ++token) {
      hash.AddInt(static_cast<uint32_t>(state.token_ids[static_cast<size_t>(token)]));
      for (int64_t axis = 0; axis < 3; ++axis) {
        const auto at = static_cast<size_t>(axis * plan.prompt_tokens + token);
        hash.AddInt(static_cast<uint32_t>(state.positions[at]));
      }
    }
    while (next != units.end() && next->end <= begin) ++next;
    for (auto it = next; it != units.end() && it->begin < end; ++it) {
      const int64_t from = std::max(begin, it->begin);
      hash.AddInt(static_cast<uint64_t>(from - begin));
      hash.AddInt(static_cast<uint64_t>(std::min(end, it->end) - from));
      hash.AddInt(static_cast<uint64_t>(it->first_row + from - it->begin));
      hash.Add(*it->unit);
    }
    parent = hash.Finish();
    keys.push_back(parent);
  }
  return keys;
}

}  // namespace rserve::runtime
