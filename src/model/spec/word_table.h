// Short byte strings to token ids: the one lookup that most words of a text need, and a cache of
// the words that it repeats.

#ifndef RSERVE_SRC_MODEL_SPEC_WORD_TABLE_H_
#define RSERVE_SRC_MODEL_SPEC_WORD_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/types/span.h"

namespace rserve::model {

// A word with zeros behind it, and its hash.
struct PaddedWord {
  static constexpr size_t kMaxBytes = 24;
  // `word` has 1 to kMaxBytes bytes.
  explicit PaddedWord(std::string_view word);

  char bytes[kMaxBytes] = {};
  uint32_t size = 0;
  uint64_t hash = 0;
};

// Open addressing over 32-byte slots that hold the word itself: a lookup is one cache line, where a
// map of strings touches three. Filled, then only read; const methods are safe from any thread.
class WordTable {
 public:
  // Room for `words` words; what was added before is gone.
  void Reserve(size_t words);
  // A word that is not in the table yet. A few of many may find no place; they are then not found
  // either, and the caller goes the long way.
  void Add(const PaddedWord& word, int32_t id);
  // -1 when the word is not there.
  int32_t Find(const PaddedWord& word) const;

 private:
  struct Slot {
    char bytes[PaddedWord::kMaxBytes];  // zero beyond the word
    int32_t id;
    uint32_t size;  // 0: empty
  };
  static_assert(sizeof(Slot) == 32);

  // The slot of the word, or the empty one where it would go; nullptr when neither is near.
  const Slot* SlotOf(const PaddedWord& word) const;

  std::vector<Slot> slots_;  // a power of two, at most three quarters full
};

// The ids of the words that a text used last, small enough to stay in the nearest caches. One
// thread's, for one text.
class WordCache {
 public:
  static constexpr size_t kMaxIds = 4;

  WordCache() : slots_(kSlots) {}

  // Appends the ids of the word and returns true, or returns false.
  bool Find(const PaddedWord& word, std::vector<int32_t>* ids) const;
  // Remembers them, unless they are too many, in place of another word.
  void Put(const PaddedWord& word, absl::Span<const int32_t> ids);

 private:
  static constexpr size_t kSlots = 1024;
  struct Slot {
    char bytes[PaddedWord::kMaxBytes] = {};
    uint32_t size = 0;  // 0: empty
    uint32_t count = 0;
    int32_t ids[kMaxIds] = {};
  };
  std::vector<Slot> slots_;
};

}  // namespace rserve::model

#endif  // RSERVE_SRC_MODEL_SPEC_WORD_TABLE_H_
