// The parsers of bytes from outside, each as a function of any bytes. A target checks what must
// hold of every answer (sizes agree, spans lie inside, nothing is forged) and aborts when it does
// not.

#ifndef RSERVE_TESTS_FUZZ_TARGETS_H_
#define RSERVE_TESTS_FUZZ_TARGETS_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/types/span.h"

namespace rserve::fuzz {

using Bytes = absl::Span<const uint8_t>;

struct Target {
  const char* name;
  void (*run)(Bytes input);
  // Seeds under tests/data or tests/fuzz/corpus: a file, or "media/corpus.bin:.ext" for the files
  // of the pack whose names end so.
  std::vector<const char*> seeds;
  // Words of the format, for the mutations.
  std::vector<const char*> words;
};

const std::vector<Target>& Targets();
// nullptr for an unknown name.
const Target* FindTarget(std::string_view name);

}  // namespace rserve::fuzz

#endif  // RSERVE_TESTS_FUZZ_TARGETS_H_
