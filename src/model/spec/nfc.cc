#include "src/model/spec/nfc.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "src/model/spec/utf8.h"

namespace rserve::model {
namespace {

struct Single {
  uint32_t composed, part;
};
struct Pair {
  uint32_t composed, first, second;
  bool composes;  // false for the composition exclusions
};
struct ClassRange {
  uint32_t begin, last;
  uint8_t combining_class;
};

#include "src/model/spec/nfc_data.inc"

// Hangul syllables are arithmetic (Unicode, section 3.12).
constexpr uint32_t kSBase = 0xAC00, kLBase = 0x1100, kVBase = 0x1161, kTBase = 0x11A7;
constexpr uint32_t kLCount = 19, kVCount = 21, kTCount = 28;
constexpr uint32_t kSCount = kLCount * kVCount * kTCount;

// Text of characters below this one is its own composed form.
constexpr uint32_t kFirstUnstable = 0x300;

struct Mark {
  uint32_t code_point;
  uint8_t combining_class;
};

uint8_t CombiningClass(uint32_t cp) {
  const ClassRange* it =
      std::upper_bound(std::begin(kClasses), std::end(kClasses), cp,
                       [](uint32_t value, const ClassRange& range) { return value < range.begin; });
  if (it == std::begin(kClasses)) return 0;
  --it;
  return cp <= it->last ? it->combining_class : 0;
}

template <typename Entry, size_t N>
const Entry* FindEntry(const Entry (&table)[N], uint32_t cp) {
  const Entry* it =
      std::lower_bound(std::begin(table), std::end(table), cp,
                       [](const Entry& entry, uint32_t value) { return entry.composed < value; });
  return it != std::end(table) && it->composed == cp ? it : nullptr;
}

// Appends the full canonical decomposition; mappings are at most a few levels deep.
void Decompose(uint32_t cp, std::vector<Mark>* out) {
  if (cp >= kSBase && cp < kSBase + kSCount) {
    const uint32_t index = cp - kSBase;
    out->push_back({kLBase + index / (kVCount * kTCount), 0});
    out->push_back({kVBase + index % (kVCount * kTCount) / kTCount, 0});
    if (index % kTCount != 0) out->push_back({kTBase + index % kTCount, 0});
  } else if (const Pair* pair = FindEntry(kPairs, cp)) {
    Decompose(pair->first, out);
    Decompose(pair->second, out);
  } else if (const Single* single = FindEntry(kSingles, cp)) {
    Decompose(single->part, out);
  } else {
    out->push_back({cp, CombiningClass(cp)});
  }
}

using PairMap = absl::flat_hash_map<uint64_t, uint32_t>;

const PairMap& Compositions() {
  static const PairMap* const map = [] {
    auto* made = new PairMap;
    for (const Pair& pair : kPairs) {
      if (pair.composes) made->emplace(uint64_t{pair.first} << 32 | pair.second, pair.composed);
    }
    return made;
  }();
  return *map;
}

// The primary composite of two characters, or 0.
uint32_t Compose(uint32_t first, uint32_t second) {
  if (first - kLBase < kLCount && second - kVBase < kVCount) {
    return kSBase + ((first - kLBase) * kVCount + (second - kVBase)) * kTCount;
  }
  if (first - kSBase < kSCount && (first - kSBase) % kTCount == 0 && second > kTBase &&
      second - kTBase < kTCount) {
    return first + (second - kTBase);
  }
  const auto it = Compositions().find(uint64_t{first} << 32 | second);
  return it == Compositions().end() ? 0 : it->second;
}

// Marks after a starter in ascending class, marks of the same class in their order.
void SortMarks(std::vector<Mark>* marks) {
  auto it = marks->begin();
  while (it != marks->end()) {
    const auto is_mark = [](const Mark& mark) { return mark.combining_class != 0; };
    const auto begin = std::find_if(it, marks->end(), is_mark);
    it = std::find_if_not(begin, marks->end(), is_mark);
    std::stable_sort(begin, it, [](const Mark& a, const Mark& b) {
      return a.combining_class < b.combining_class;
    });
  }
}

// Composes in place: each character joins the last starter unless something between blocks it.
void ComposeMarks(std::vector<Mark>* marks) {
  constexpr size_t kNone = static_cast<size_t>(-1);
  size_t starter = kNone;
  size_t kept = 0;
  for (size_t i = 0; i < marks->size(); ++i) {
    const Mark mark = (*marks)[i];
    if (starter != kNone) {
      const bool adjacent = kept == starter + 1;
      const bool blocked = !adjacent && (*marks)[kept - 1].combining_class >= mark.combining_class;
      const uint32_t composed =
          blocked ? 0 : Compose((*marks)[starter].code_point, mark.code_point);
      if (composed != 0) {
        (*marks)[starter].code_point = composed;
        continue;
      }
    }
    if (mark.combining_class == 0) starter = kept;
    (*marks)[kept++] = mark;
  }
  marks->resize(kept);
}

// By code point: a character that no neighbour of its kind changes: it is its own composed form, it
// is no mark, and it joins no character before it. Text of such characters alone is composed.
// (These are the characters of NFC_Quick_Check=Yes and combining class 0.)
const std::vector<bool>& Settled() {
  static const std::vector<bool>* const table = [] {
    auto* made = new std::vector<bool>(0x110000, true);
    for (const Single& single : kSingles) (*made)[single.composed] = false;
    for (const Pair& pair : kPairs) {
      if (pair.composes) {
        (*made)[pair.second] = false;
      } else {
        (*made)[pair.composed] = false;
      }
    }
    for (const ClassRange& range : kClasses) {
      for (uint32_t cp = range.begin; cp <= range.last; ++cp) (*made)[cp] = false;
    }
    for (uint32_t i = 0; i < kVCount; ++i) (*made)[kVBase + i] = false;
    for (uint32_t i = 1; i < kTCount; ++i) (*made)[kTBase + i] = false;
    return made;
  }();
  return *table;
}

}  // namespace

std::string NormalizeNfc(std::string_view text) {
  bool stable = true;
  for (size_t pos = 0; stable && pos < text.size();) {
    pos += AsciiRun(text, pos);
    if (pos == text.size()) break;
    const char32_t cp = NextCodePoint(text, &pos);
    stable = cp < kFirstUnstable || (cp != kInvalidCodePoint && Settled()[cp]);
  }
  if (stable) return std::string(text);

  std::vector<Mark> marks;
  marks.reserve(text.size());
  for (size_t pos = 0; pos < text.size();) {
    const char32_t cp = NextCodePoint(text, &pos);
    if (cp == kInvalidCodePoint) break;
    if (cp < kFirstUnstable && (pos >= text.size() || static_cast<uint8_t>(text[pos]) < 0x80)) {
      // A stable character before ASCII needs no look into the tables.
      marks.push_back({cp, 0});
    } else {
      Decompose(cp, &marks);
    }
  }
  SortMarks(&marks);
  ComposeMarks(&marks);
  std::string out;
  out.reserve(text.size());
  for (const Mark& mark : marks) AppendUtf8(mark.code_point, &out);
  return out;
}

}  // namespace rserve::model
