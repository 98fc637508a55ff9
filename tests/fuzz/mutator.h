// Damaged copies of good inputs, each from a number: the same seed and number give the same bytes.

#ifndef RSERVE_TESTS_FUZZ_MUTATOR_H_
#define RSERVE_TESTS_FUZZ_MUTATOR_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace rserve::fuzz {

using ByteVector = std::vector<uint8_t>;

class Mutator {
 public:
  // `corpus` is not empty. Inputs stay below `max_bytes`.
  Mutator(std::vector<ByteVector> corpus, std::vector<std::string> words, size_t max_bytes)
      : corpus_(std::move(corpus)), words_(std::move(words)), max_bytes_(max_bytes) {}

  // The input of a number: one of the corpus with one to eight mutations (flipped bits, bytes and
  // words set, cut, doubled, moved, grown, spliced with another of the corpus, a word of the format
  // written over it). The first numbers give the corpus as it is.
  ByteVector Make(uint64_t seed, uint64_t number) const;

 private:
  std::vector<ByteVector> corpus_;
  std::vector<std::string> words_;
  size_t max_bytes_;
};

}  // namespace rserve::fuzz

#endif  // RSERVE_TESTS_FUZZ_MUTATOR_H_
