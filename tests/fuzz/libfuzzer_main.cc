// The same targets for libFuzzer, whose main calls this; built by scripts/fuzz.sh where clang is.

#include <cstddef>
#include <cstdint>

#include "tests/fuzz/targets.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const rserve::fuzz::Target* const target = rserve::fuzz::FindTarget(RSERVE_FUZZ_TARGET);
  target->run(absl::MakeConstSpan(data, size));
  return 0;
}
