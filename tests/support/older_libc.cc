// std::random_device (Catch2's seeds) asks arc4random, which the C library has from 2.36 on. A
// program that goes to other machines brings its own, and runs with 2.35.

#include <stdlib.h>
#include <unistd.h>

#include <cstdint>

extern "C" uint32_t arc4random() noexcept {
  uint32_t bits = 0;
  if (getentropy(&bits, sizeof(bits)) != 0) abort();
  return bits;
}
