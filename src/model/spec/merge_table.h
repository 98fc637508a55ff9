// The merge rules of a byte-pair encoding, laid out for the merging loop.

#ifndef RSERVE_SRC_MODEL_SPEC_MERGE_TABLE_H_
#define RSERVE_SRC_MODEL_SPEC_MERGE_TABLE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace rserve::model {

// What a pair of tokens becomes, and how early.
struct Merge {
  static constexpr int32_t kNoRule = INT32_MAX;  // as a rank
  int32_t rank = kNoRule;
  int32_t id = 0;
};

// A pair of token ids as one number.
constexpr uint64_t PairKey(int32_t left, int32_t right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}

// Most pairs that a text asks for have no rule, and the rules of a published vocabulary do not fit
// into the nearer caches. So a bit field that does is asked first; of the pairs that pass, nearly
// all have a rule, which takes one cache line. Built once, then const and safe from any thread.
class MergeTable {
 public:
  // The rules by PairKey. A few whose place is taken by many others (a vocabulary can be made so)
  // are kept in a map.
  void Build(const absl::flat_hash_map<uint64_t, Merge>& rules);

  // A question, asked before the answer is needed: what Find reads is on its way meanwhile.
  struct Query {
    uint64_t key;
    uint64_t hash;
  };
  Query Ask(int32_t left, int32_t right) const {
    const uint64_t key = PairKey(left, right);
    const uint64_t hash = Hash(key);
    __builtin_prefetch(&slots_[hash >> slot_shift_]);
    return {key, hash};
  }
  // The rule for a pair; rank kNoRule when there is none.
  Merge Find(const Query& query) const {
    if ((filter_[query.hash >> filter_shift_] >> (query.hash & 63) & 1) == 0) return {};
    for (size_t at = query.hash >> slot_shift_, step = 0; step < kMaxSteps; ++step, ++at) {
      const Slot& slot = slots_[at];
      if (slot.key == query.key) return slot.merge;
      if (slot.key == kFree) return {};
    }
    return FindCrowded(query.key);
  }
  Merge Find(int32_t left, int32_t right) const { return Find(Ask(left, right)); }

  // Its first bits choose a place.
  static constexpr uint64_t Hash(uint64_t key) {
    key = (key ^ key >> 32) * 0x9e3779b97f4a7c15u;
    return (key ^ key >> 29) * 0xff51afd7ed558ccdu;
  }

 private:
  static constexpr size_t kMaxSteps = 32;
  static constexpr uint64_t kFree = UINT64_MAX;  // of ids below 0
  struct Slot {
    uint64_t key = kFree;
    Merge merge;
  };
  static_assert(sizeof(Slot) == 16);

  Merge FindCrowded(uint64_t key) const;

  std::vector<uint64_t> filter_ = std::vector<uint64_t>(2);  // a power of two words
  int filter_shift_ = 63;
  std::vector<Slot> slots_;  // a power of two, and kMaxSteps more so that none wraps
  int slot_shift_ = 63;
  absl::flat_hash_map<uint64_t, Merge> crowded_;
};

}  // namespace rserve::model

#endif  // RSERVE_SRC_MODEL_SPEC_MERGE_TABLE_H_
