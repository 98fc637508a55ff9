#include "src/model/spec/byte_merges.h"

#include <algorithm>

namespace rserve::model {

void ByteMerges::Build(const absl::flat_hash_map<uint64_t, Merge>& rules,
                       const std::array<int32_t, 256>& byte_ids,
                       const absl::flat_hash_map<int32_t, std::string>& bytes) {
  absl::flat_hash_map<int32_t, size_t> byte_of;
  for (size_t byte = 0; byte < byte_ids.size(); ++byte) byte_of[byte_ids[byte]] = byte;
  const auto find_byte = [&byte_of](int32_t id) {
    const auto it = byte_of.find(id);
    return it == byte_of.end() ? kNone : it->second;
  };
  pairs_.assign(256 * 256, Merge{});
  taken_left_.assign(257 * 256, Merge::kNoRule);
  taken_right_.assign(257 * 256, Merge::kNoRule);
  absl::flat_hash_map<int32_t, int32_t> taken;  // of what two bytes give: its rules' least rank
  const auto lower = [](int32_t* least, int32_t rank) { *least = std::min(*least, rank); };
  for (const auto& [key, merge] : rules) {
    const auto left_id = static_cast<int32_t>(key >> 32), right_id = static_cast<int32_t>(key);
    const std::string& left_bytes = bytes.at(left_id);
    const std::string& right_bytes = bytes.at(right_id);
    if (left_bytes.empty() || right_bytes.empty()) continue;  // never in a piece
    const size_t left = find_byte(left_id), right = find_byte(right_id);
    if (left != kNone) {
      const auto after = static_cast<uint8_t>(right_bytes.front());
      lower(&taken_right_[after * size_t{256} + left], merge.rank);
    }
    if (right != kNone) {
      const auto before = static_cast<uint8_t>(left_bytes.back());
      lower(&taken_left_[before * size_t{256} + right], merge.rank);
    }
    if (left != kNone && right != kNone) {
      pairs_[right * 256 + left] = merge;
      taken.emplace(merge.id, Merge::kNoRule);
    }
  }
  for (const auto& [key, merge] : rules) {
    for (const auto id : {static_cast<int32_t>(key >> 32), static_cast<int32_t>(key)}) {
      if (const auto it = taken.find(id); it != taken.end()) lower(&it->second, merge.rank);
    }
  }
  first_ranks_.assign(256 * 256, Merge::kNoRule);
  for (size_t i = 0; i < pairs_.size(); ++i) {
    const Merge& merge = pairs_[i];
    if (merge.rank != Merge::kNoRule && merge.rank < taken[merge.id]) first_ranks_[i] = merge.rank;
  }
}

}  // namespace rserve::model
