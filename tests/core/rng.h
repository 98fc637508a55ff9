// A small generator whose numbers are the same on every platform and standard library.

#ifndef RSERVE_TESTS_CORE_RNG_H_
#define RSERVE_TESTS_CORE_RNG_H_

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <utility>
#include <vector>

namespace rserve::test {

class Rng {
 public:
  explicit Rng(uint64_t seed) : state_(seed) {}

  uint64_t Next() {  // splitmix64
    uint64_t z = (state_ += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  }
  // A number of [low, high]. The tiny bias of the product does not matter to a test.
  int64_t In(int64_t low, int64_t high) {
    const uint64_t range = static_cast<uint64_t>(high - low) + 1;
    return low + static_cast<int64_t>(
                     (static_cast<unsigned __int128>(Next()) * static_cast<uint64_t>(range)) >> 64);
  }
  bool Percent(int64_t chance) { return In(1, 100) <= chance; }

  template <typename T>
  T Pick(std::initializer_list<T> choices) {
    return choices.begin()[In(0, static_cast<int64_t>(choices.size()) - 1)];
  }
  template <typename T>
  void Shuffle(std::vector<T>* values) {
    for (size_t i = values->size(); i > 1; --i) {
      std::swap((*values)[i - 1], (*values)[In(0, static_cast<int64_t>(i) - 1)]);
    }
  }

 private:
  uint64_t state_;
};

}  // namespace rserve::test

#endif  // RSERVE_TESTS_CORE_RNG_H_
