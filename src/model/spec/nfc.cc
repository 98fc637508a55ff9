#include "src/model/spec/nfc.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "src/model/spec/code_point_table.h"
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

// What a character needs (Unicode's quick check): kSettled and the values between are canonical
// combining classes of characters that are composed as long as the classes do not descend; kChanges
// is any other character: it has another form, or may join one before it.
constexpr uint8_t kSettled = 0, kChanges = 255;

const CodePointTable<uint8_t>& QuickCheck() {
  static const CodePointTable<uint8_t>* const table = [] {
    std::vector<uint8_t> values(CodePointTable<uint8_t>::kCodePoints, kSettled);
    for (const ClassRange& range : kClasses) {
      std::fill(values.begin() + range.begin, values.begin() + range.last + 1,
                range.combining_class);
    }
    for (const Single& single : kSingles) values[single.composed] = kChanges;
    for (const Pair& pair : kPairs) values[pair.composes ? pair.second : pair.composed] = kChanges;
    for (uint32_t i = 0; i < kVCount; ++i) values[kVBase + i] = kChanges;
    for (uint32_t i = 1; i < kTCount; ++i) values[kTBase + i] = kChanges;
    return new CodePointTable<uint8_t>(values);
  }();
  return *table;
}

// Appends the composed form of text that touches no other text's form.
void AppendComposed(std::string_view text, std::vector<Mark>* marks, std::string* out) {
  marks->clear();
  const char* const end = text.data() + text.size();
  for (const char* at = text.data(); at < end;) Decompose(ReadValidUtf8(at, &at), marks);
  SortMarks(marks);
  ComposeMarks(marks);
  for (const Mark& mark : *marks) AppendUtf8(mark.code_point, out);
}

}  // namespace

std::string_view NormalizeNfc(std::string_view text, std::string* storage) {
  const CodePointTable<uint8_t>& quick = QuickCheck();
  storage->clear();
  const char* const end = text.data() + text.size();
  const char* copied = text.data();   // what is before it is in storage, if anything is
  const char* settled = text.data();  // nothing from here on changes what is before it
  uint8_t last_class = kSettled;
  std::vector<Mark> marks;
  for (const char* at = text.data(); at < end;) {
    if (const size_t ascii = AsciiRun(text, static_cast<size_t>(at - text.data())); ascii != 0) {
      at += ascii;
      settled = at - 1;
      last_class = kSettled;
      continue;
    }
    const char* next = at;
    const uint8_t value = quick[ReadValidUtf8(at, &next)];
    if (value == kSettled) settled = at;
    if (value == kSettled || (value != kChanges && value >= last_class)) {
      last_class = value;
      at = next;
      continue;
    }
    // Up to the next settled character the text is composed anew.
    while (next < end) {
      const char* after = next;
      if (quick[ReadValidUtf8(next, &after)] == kSettled) break;
      next = after;
    }
    storage->append(copied, settled);
    AppendComposed({settled, static_cast<size_t>(next - settled)}, &marks, storage);
    copied = settled = at = next;
    last_class = kSettled;
  }
  if (copied == text.data()) return text;
  storage->append(copied, end);
  return *storage;
}

std::string NormalizeNfc(std::string_view text) {
  std::string storage;
  return std::string(NormalizeNfc(text, &storage));
}

}  // namespace rserve::model
