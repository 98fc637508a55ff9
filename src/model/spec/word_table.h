// Short byte strings to token ids: the one lookup that most words of a text need, and a cache of
// the words that it repeats.

#ifndef RSERVE_SRC_MODEL_SPEC_WORD_TABLE_H_
#define RSERVE_SRC_MODEL_SPEC_WORD_TABLE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/types/span.h"

namespace rserve::model {

// A word of up to kMaxBytes bytes as three integers, which with its size tell it from any other,
// and its hash.
struct PaddedWord {
  static constexpr size_t kMaxBytes = 24;
  PaddedWord() = default;
  // `word` has 1 to kMaxBytes bytes.
  explicit PaddedWord(std::string_view word);

  using Parts = std::array<uint64_t, kMaxBytes / sizeof(uint64_t)>;
  Parts parts = {};
  uint32_t size = 0;
  uint64_t hash = 0;
};

// Open addressing over 32-byte slots that hold the word itself, and a byte of its hash apart: most
// lookups of a word that is not there end at that byte, in a tenth of the memory, and those of one
// that is touch one cache line more. Filled, then only read; const methods are safe from any
// thread.
class WordTable {
 public:
  // Room for `words` words; what was added before is gone.
  void Reserve(size_t words);
  // A word that is not in the table yet. A few of many may find no place; they are then not found
  // either, and the caller goes the long way.
  void Add(const PaddedWord& word, int32_t id);
  // -1 when the word is not there.
  int32_t Find(const PaddedWord& word) const;
  // Begins to load what Find will read, for a word that is looked up a little later.
  void Prefetch(const PaddedWord& word) const;

 private:
  // A word that finds no slot within so many steps is left out: its pieces are merged instead.
  // Bounds what a vocabulary made for collisions can cost.
  static constexpr size_t kMaxSteps = 32;
  static constexpr uint8_t kFree = 0;
  struct Slot {
    PaddedWord::Parts parts;
    int32_t id;
    uint32_t size;
  };
  static_assert(sizeof(Slot) == 32);

  size_t Begin(const PaddedWord& word) const { return word.hash >> shift_; }
  static uint8_t Tag(const PaddedWord& word) { return word.hash & 255 ? word.hash & 255 : 255; }

  std::vector<Slot> slots_;    // a power of two, at most three quarters full, and kMaxSteps more
  std::vector<uint8_t> tags_;  // of the same slots
  int shift_ = 0;
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
    PaddedWord::Parts parts = {};
    uint32_t size = 0;  // 0: empty
    uint32_t count = 0;
    int32_t ids[kMaxIds] = {};
  };
  std::vector<Slot> slots_;
};

}  // namespace rserve::model

#endif  // RSERVE_SRC_MODEL_SPEC_WORD_TABLE_H_
