#include "src/model/spec/merge_table.h"

#include <algorithm>
#include <bit>

namespace rserve::model {
namespace {

// Of one 64-bit word of the filter: with four rules a word, one pair in sixteen that has no rule
// passes.
constexpr size_t kRulesPerWord = 4;

}  // namespace

void MergeTable::Build(const absl::flat_hash_map<uint64_t, Merge>& rules) {
  const size_t words = std::bit_ceil(std::max<size_t>(rules.size() / kRulesPerWord, 2));
  const size_t slots = std::bit_ceil(std::max<size_t>(rules.size() / 2 * 3, 2));
  filter_.assign(words, 0);
  filter_shift_ = 64 - std::countr_zero(words);
  slots_.assign(slots + kMaxSteps, Slot{});
  slot_shift_ = 64 - std::countr_zero(slots);
  crowded_.clear();
  for (const auto& [key, merge] : rules) {
    const uint64_t hash = Hash(key);
    filter_[hash >> filter_shift_] |= uint64_t{1} << (hash & 63);
    const auto begin = slots_.begin() + static_cast<std::ptrdiff_t>(hash >> slot_shift_);
    const auto place =
        std::find_if(begin, begin + kMaxSteps, [](const Slot& slot) { return slot.key == kFree; });
    if (place == begin + kMaxSteps) {
      crowded_[key] = merge;
    } else {
      *place = {key, merge};
    }
  }
}

Merge MergeTable::FindCrowded(uint64_t key) const {
  const auto it = crowded_.find(key);
  return it == crowded_.end() ? Merge{} : it->second;
}

}  // namespace rserve::model
