// One random sequence: a configuration, then inputs of every kind in random order, then everything
// outstanding is finished and the orchestrator must come to rest. A sequence depends on its seed
// (and on what the orchestrator issues), on nothing else.

#ifndef RSERVE_TESTS_CORE_RANDOM_SEQUENCE_H_
#define RSERVE_TESTS_CORE_RANDOM_SEQUENCE_H_

#include <cstdint>
#include <string>

#include "tests/core/coverage.h"

namespace rserve::test {

struct SequenceResult {
  std::string violation;  // empty: none
  std::string log;        // inputs and actions as text, if asked for
  int64_t inputs = 0;
  int64_t steps = 0;
};

struct SequenceOptions {
  bool log = false;
  // Run the same inputs through a second orchestrator and compare all actions byte by byte.
  bool replay = false;
};

SequenceResult RunSequence(uint64_t seed, const SequenceOptions& options, Coverage* coverage);

}  // namespace rserve::test

#endif  // RSERVE_TESTS_CORE_RANDOM_SEQUENCE_H_
