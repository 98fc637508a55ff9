#include "src/model/spec/word_table.h"

#include <algorithm>
#include <cstring>

namespace rserve::model {
namespace {

// A word that finds no slot within so many steps is left out: its pieces are merged instead. Bounds
// what a vocabulary made for collisions can cost.
constexpr int kMaxSteps = 32;

bool Same(const char* bytes, const PaddedWord& word) {
  return std::memcmp(bytes, word.bytes, PaddedWord::kMaxBytes) == 0;
}

}  // namespace

PaddedWord::PaddedWord(std::string_view word) : size(static_cast<uint32_t>(word.size())) {
  std::memcpy(bytes, word.data(), word.size());
  uint64_t parts[3];
  static_assert(sizeof(parts) == kMaxBytes);
  std::memcpy(parts, bytes, sizeof(parts));
  hash = size * 0x9e3779b97f4a7c15u;
  for (const uint64_t part : parts) {
    hash = (hash ^ part) * 0xff51afd7ed558ccdu;
    hash ^= hash >> 32;
  }
}

void WordTable::Reserve(size_t words) {
  size_t size = 16;
  while (size / 4 * 3 < words) size *= 2;
  slots_.assign(size, Slot{});
}

const WordTable::Slot* WordTable::SlotOf(const PaddedWord& word) const {
  const size_t mask = slots_.size() - 1;
  size_t at = word.hash & mask;
  for (int step = 0; step < kMaxSteps; ++step, at = (at + 1) & mask) {
    const Slot& slot = slots_[at];
    if (slot.size == 0 || (slot.size == word.size && Same(slot.bytes, word))) return &slot;
  }
  return nullptr;
}

void WordTable::Add(const PaddedWord& word, int32_t id) {
  const Slot* place = SlotOf(word);
  if (place == nullptr) return;
  Slot& slot = slots_[static_cast<size_t>(place - slots_.data())];
  std::memcpy(slot.bytes, word.bytes, sizeof(slot.bytes));
  slot.id = id;
  slot.size = word.size;
}

int32_t WordTable::Find(const PaddedWord& word) const {
  if (slots_.empty()) return -1;
  const Slot* slot = SlotOf(word);
  return slot == nullptr || slot->size == 0 ? -1 : slot->id;
}

bool WordCache::Find(const PaddedWord& word, std::vector<int32_t>* ids) const {
  const Slot& slot = slots_[word.hash >> 32 & (kSlots - 1)];
  if (slot.size != word.size || !Same(slot.bytes, word)) return false;
  ids->insert(ids->end(), slot.ids, slot.ids + slot.count);
  return true;
}

void WordCache::Put(const PaddedWord& word, absl::Span<const int32_t> ids) {
  if (ids.size() > kMaxIds) return;
  Slot& slot = slots_[word.hash >> 32 & (kSlots - 1)];
  std::memcpy(slot.bytes, word.bytes, sizeof(slot.bytes));
  slot.size = word.size;
  slot.count = static_cast<uint32_t>(ids.size());
  std::copy(ids.begin(), ids.end(), slot.ids);
}

}  // namespace rserve::model
