// A small value for each Unicode code point, read in two loads.

#ifndef RSERVE_SRC_MODEL_SPEC_CODE_POINT_TABLE_H_
#define RSERVE_SRC_MODEL_SPEC_CODE_POINT_TABLE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace rserve::model {

// Pages of 256 code points, of which most are alike and kept once: some ten KiB for what is known
// of Unicode's million. Immutable; any thread.
template <typename Value>
class CodePointTable {
 public:
  static constexpr size_t kCodePoints = 0x110000;

  // The values by code point, kCodePoints of them.
  explicit CodePointTable(const std::vector<Value>& values) {
    std::map<Page, uint16_t> known;
    for (size_t page = 0; page < index_.size(); ++page) {
      Page content;
      for (size_t i = 0; i < content.size(); ++i) content[i] = values[page * content.size() + i];
      const auto [it, fresh] = known.emplace(content, static_cast<uint16_t>(pages_.size()));
      if (fresh) pages_.push_back(content);
      index_[page] = it->second;
    }
  }

  // Of a code point up to U+10FFFF.
  Value operator[](char32_t c) const { return pages_[index_[c >> 8]][c & 255]; }

 private:
  using Page = std::array<Value, 256>;
  std::array<uint16_t, kCodePoints / 256> index_ = {};
  std::vector<Page> pages_;
};

}  // namespace rserve::model

#endif  // RSERVE_SRC_MODEL_SPEC_CODE_POINT_TABLE_H_
