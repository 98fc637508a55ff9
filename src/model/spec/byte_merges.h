// The merge rules between single bytes: where merging of a piece begins.

#ifndef RSERVE_SRC_MODEL_SPEC_BYTE_MERGES_H_
#define RSERVE_SRC_MODEL_SPEC_BYTE_MERGES_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "src/model/spec/merge_table.h"

namespace rserve::model {

// Built once, then const and safe from any thread; 1.5 MiB.
class ByteMerges {
 public:
  static constexpr size_t kNone = 256;  // no byte

  // `rules`: all of the encoding, by PairKey. `byte_ids`: the tokens of the bytes. `bytes`: what
  // each token that a rule names stands for.
  void Build(const absl::flat_hash_map<uint64_t, Merge>& rules,
             const std::array<int32_t, 256>& byte_ids,
             const absl::flat_hash_map<int32_t, std::string>& bytes);

  // The rule for two bytes; rank kNoRule when there is none.
  const Merge& Find(size_t left, size_t right) const { return pairs_[right * 256 + left]; }

  // Whether two neighbouring bytes merge with each other in any case, as the two bytes of a letter
  // mostly do, so that merging may begin with the result. `before` and `after` are the bytes around
  // them, or kNone.
  //
  // It may if the pair's rule has a lower rank than every rule that could take one of the two away
  // (a token that ends with `before` and `left`; `right` and a token that begins with `after`), and
  // than every rule that takes its result: until the pair merges, all that is merged has its rank
  // or a lower one and touches neither the two bytes nor, were it there, their result, so when they
  // merge makes no difference.
  bool MergeFirst(size_t before, size_t left, size_t right, size_t after) const {
    const int32_t rank = first_ranks_[right * 256 + left];
    return rank < taken_left_[before * 256 + left] && rank < taken_right_[after * 256 + right];
  }

 private:
  // By right * 256 + left, with kNoRule in the second where a rule of the result has a lower rank.
  std::vector<Merge> pairs_;
  std::vector<int32_t> first_ranks_;
  // By a * 256 + b the least rank of a token that ends with a and b; of b and one that begins with
  // a.
  std::vector<int32_t> taken_left_;
  std::vector<int32_t> taken_right_;
};

}  // namespace rserve::model

#endif  // RSERVE_SRC_MODEL_SPEC_BYTE_MERGES_H_
