#include "src/model/spec/word_table.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace rserve::model {
namespace {

template <typename Number>
uint64_t Load(const char* at) {
  Number number;
  std::memcpy(&number, at, sizeof(number));
  return number;
}

// The last `count` of `size` bytes, 0 to 8 of them, without reading beyond the bytes.
uint64_t LoadLast(const char* bytes, size_t size, size_t count) {
  if (count == 0) return 0;
  if (size >= 8) return Load<uint64_t>(bytes + size - 8) >> (64 - 8 * count);
  const auto byte = [bytes](size_t i) { return uint64_t{static_cast<uint8_t>(bytes[i])} << 8 * i; };
  if (size < 4) return byte(0) | byte(size / 2) | byte(size - 1);
  return Load<uint32_t>(bytes) | Load<uint32_t>(bytes + size - 4) << (8 * (size - 4));
}

}  // namespace

PaddedWord::PaddedWord(std::string_view word) : size(static_cast<uint32_t>(word.size())) {
  static_assert(std::endian::native == std::endian::little);
  const char* const bytes = word.data();
  if (size <= 8) {
    parts[0] = LoadLast(bytes, size, size);
  } else {
    parts[0] = Load<uint64_t>(bytes);
    if (size <= 16) {
      parts[1] = LoadLast(bytes, size, size - 8);
    } else {
      parts[1] = Load<uint64_t>(bytes + 8);
      parts[2] = LoadLast(bytes, size, size - 16);
    }
  }
  const uint64_t mixed = parts[0] * 0x9e3779b97f4a7c15u +
                         (parts[1] ^ parts[1] >> 31) * 0xc2b2ae3d27d4eb4fu +
                         (parts[2] ^ parts[2] >> 29) * 0x165667b19e3779f9u + size;
  hash = (mixed ^ mixed >> 32) * 0xff51afd7ed558ccdu;
  hash ^= hash >> 32;
}

void WordTable::Reserve(size_t words) {
  const size_t size = std::bit_ceil(std::max<size_t>(words / 3 * 4 + 4, 16));
  slots_.assign(size + kMaxSteps, Slot{});
  tags_.assign(size + kMaxSteps, kFree);
  shift_ = 64 - std::countr_zero(size);
}

void WordTable::Add(const PaddedWord& word, int32_t id) {
  const auto begin = tags_.begin() + static_cast<std::ptrdiff_t>(Begin(word));
  const auto place = std::find(begin, begin + kMaxSteps, kFree);
  if (place == begin + kMaxSteps) return;
  *place = Tag(word);
  slots_[static_cast<size_t>(place - tags_.begin())] = {word.parts, id, word.size};
}

int32_t WordTable::Find(const PaddedWord& word) const {
  if (slots_.empty()) return -1;
  const uint8_t tag = Tag(word);
  for (size_t at = Begin(word), step = 0; step < kMaxSteps; ++step, ++at) {
    if (tags_[at] == kFree) return -1;
    if (tags_[at] != tag) continue;
    const Slot& slot = slots_[at];
    if (slot.size == word.size && slot.parts == word.parts) return slot.id;
  }
  return -1;
}

void WordTable::Prefetch(const PaddedWord& word) const {
  if (slots_.empty()) return;
  const size_t at = Begin(word);
  __builtin_prefetch(&tags_[at]);
  __builtin_prefetch(&slots_[at]);
}

bool WordCache::Find(const PaddedWord& word, std::vector<int32_t>* ids) const {
  const Slot& slot = slots_[word.hash >> 32 & (kSlots - 1)];
  if (slot.size != word.size || slot.parts != word.parts) return false;
  ids->insert(ids->end(), slot.ids, slot.ids + slot.count);
  return true;
}

void WordCache::Put(const PaddedWord& word, absl::Span<const int32_t> ids) {
  if (ids.size() > kMaxIds) return;
  Slot& slot = slots_[word.hash >> 32 & (kSlots - 1)];
  slot.parts = word.parts;
  slot.size = word.size;
  slot.count = static_cast<uint32_t>(ids.size());
  std::copy(ids.begin(), ids.end(), slot.ids);
}

}  // namespace rserve::model
