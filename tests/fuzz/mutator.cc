#include "tests/fuzz/mutator.h"

#include <algorithm>
#include <cstring>

namespace rserve::fuzz {
namespace {

// SplitMix64: any seed, also 0, gives a good stream.
class Random {
 public:
  explicit Random(uint64_t state) : state_(state) {}
  uint64_t Next() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  size_t Below(size_t limit) { return limit == 0 ? 0 : static_cast<size_t>(Next() % limit); }

 private:
  uint64_t state_;
};

// Numbers at which size arithmetic breaks.
constexpr uint64_t kEdges[] = {0,
                               1,
                               0x7f,
                               0x80,
                               0xff,
                               0x100,
                               0x7fff,
                               0x8000,
                               0xffff,
                               0x10000,
                               0x7fffffff,
                               0x80000000,
                               0xffffffff,
                               0x100000000u,
                               ~uint64_t{0},
                               ~uint64_t{0} >> 1};

void WriteNumber(Random& random, ByteVector& bytes) {
  const size_t width = size_t{1} << random.Below(4);
  if (bytes.size() < width) return;
  uint64_t value = kEdges[random.Below(std::size(kEdges))];
  const size_t at = random.Below(bytes.size() - width + 1);
  const bool big = random.Below(2) != 0;
  for (size_t i = 0; i < width; ++i, value >>= 8) {
    bytes[at + (big ? width - 1 - i : i)] = static_cast<uint8_t>(value);
  }
}

void Insert(ByteVector& bytes, size_t at, const uint8_t* data, size_t size) {
  bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(at), data, data + size);
}

}  // namespace

ByteVector Mutator::Make(uint64_t seed, uint64_t number) const {
  if (number < corpus_.size()) return corpus_[static_cast<size_t>(number)];
  Random random(seed * 0x2545f4914f6cdd1du + number);
  ByteVector bytes = corpus_[random.Below(corpus_.size())];
  const auto at = [&] { return random.Below(bytes.size()); };
  for (size_t left = 1 + random.Below(8); left > 0; --left) {
    if (bytes.empty()) bytes.push_back(static_cast<uint8_t>(random.Next()));
    switch (random.Below(10)) {
      case 0:
        bytes[at()] ^= static_cast<uint8_t>(1u << random.Below(8));
        break;
      case 1:
        bytes[at()] = static_cast<uint8_t>(random.Next());
        break;
      case 2:
        WriteNumber(random, bytes);
        break;
      case 3:
        bytes.resize(at());
        break;
      case 4: {  // a piece again, somewhere else
        const size_t from = at();
        const ByteVector piece(bytes.begin() + static_cast<std::ptrdiff_t>(from),
                               bytes.begin() + static_cast<std::ptrdiff_t>(std::min(
                                                   bytes.size(), from + 1 + random.Below(64))));
        Insert(bytes, at(), piece.data(), piece.size());
        break;
      }
      case 5: {  // a piece taken out
        const size_t from = at();
        const size_t to = std::min(bytes.size(), from + 1 + random.Below(32));
        bytes.erase(bytes.begin() + static_cast<std::ptrdiff_t>(from),
                    bytes.begin() + static_cast<std::ptrdiff_t>(to));
        break;
      }
      case 6: {  // the rest of another input
        const ByteVector& other = corpus_[random.Below(corpus_.size())];
        if (other.empty()) break;
        bytes.resize(at());
        const size_t from = random.Below(other.size());
        Insert(bytes, bytes.size(), other.data() + from, other.size() - from);
        break;
      }
      case 7: {
        if (words_.empty()) break;
        const std::string& word = words_[random.Below(words_.size())];
        const auto* data = reinterpret_cast<const uint8_t*>(word.data());
        const size_t place = at();
        if (random.Below(2) == 0) {
          Insert(bytes, place, data, word.size());
        } else {
          std::memcpy(bytes.data() + place, data, std::min(word.size(), bytes.size() - place));
        }
        break;
      }
      case 8: {  // noise of some length
        const size_t place = at();
        const size_t end = std::min(bytes.size(), place + 1 + random.Below(16));
        for (size_t i = place; i < end; ++i) bytes[i] = static_cast<uint8_t>(random.Next());
        break;
      }
      default: {  // one byte many times
        const ByteVector run(1 + random.Below(300), static_cast<uint8_t>(random.Next()));
        Insert(bytes, at(), run.data(), run.size());
        break;
      }
    }
    if (bytes.size() > max_bytes_) bytes.resize(max_bytes_);
  }
  return bytes;
}

}  // namespace rserve::fuzz
