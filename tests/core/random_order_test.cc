// Random event orders against the shadow model (invariants 1 to 7 of rserve/cc/orchestrator.h).
//
//   core_random_order_test [--first-seed N] [--sequences N] [--seeds-file PATH] [--coverage]
//   core_random_order_test --seed N          runs one sequence and prints all of it
//
// The seeds of the file (one a line, '#' comments) run first: sequences that once failed, or that
// reach something rare. With --coverage every situation of coverage.h must have been reached.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "tests/core/random_sequence.h"

namespace rserve::test {
namespace {

struct Arguments {
  uint64_t first_seed = 1;
  uint64_t sequences = 1000;
  uint64_t one_seed = 0;
  bool one = false;
  bool coverage = false;
  std::string seeds_file;
};

bool Parse(int argc, char** argv, Arguments* arguments) {
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--coverage") {
      arguments->coverage = true;
      continue;
    }
    if (++i == argc) return false;
    if (name == "--seeds-file") {
      arguments->seeds_file = argv[i];
      continue;
    }
    uint64_t value = 0;
    if (!absl::SimpleAtoi(argv[i], &value)) return false;
    if (name == "--first-seed") {
      arguments->first_seed = value;
    } else if (name == "--sequences") {
      arguments->sequences = value;
    } else if (name == "--seed") {
      arguments->one_seed = value;
      arguments->one = true;
    } else {
      return false;
    }
  }
  return true;
}

bool ReadSeeds(const std::string& path, std::vector<uint64_t>* seeds) {
  std::ifstream file(path);
  if (!file) return false;
  for (std::string line; std::getline(file, line);) {
    line = line.substr(0, line.find('#'));
    uint64_t seed = 0;
    if (absl::SimpleAtoi(line, &seed)) seeds->push_back(seed);
  }
  return true;
}

// `seen`: what a run of the seed has shown before. What depends on addresses may not show again.
int ShowOne(uint64_t seed, const std::string& seen, const char* program) {
  SequenceResult result = RunSequence(seed, {.log = true, .replay = true}, nullptr);
  if (result.violation.empty()) result.violation = seen;
  std::fputs(result.log.c_str(), stdout);
  if (result.violation.empty()) {
    std::printf("seed %llu: no violation, %lld inputs\n", static_cast<unsigned long long>(seed),
                static_cast<long long>(result.inputs));
    return EXIT_SUCCESS;
  }
  std::printf("seed %llu: %s\nrun it again: %s --seed %llu\n",
              static_cast<unsigned long long>(seed), result.violation.c_str(), program,
              static_cast<unsigned long long>(seed));
  return EXIT_FAILURE;
}

int Main(int argc, char** argv) {
  Arguments arguments;
  if (!Parse(argc, argv, &arguments)) {
    std::printf("arguments: see the head of random_order_test.cc\n");
    return 2;
  }
  if (arguments.one) return ShowOne(arguments.one_seed, "", argv[0]);

  std::vector<uint64_t> seeds;
  if (!arguments.seeds_file.empty() && !ReadSeeds(arguments.seeds_file, &seeds)) {
    std::printf("cannot read %s\n", arguments.seeds_file.c_str());
    return 2;
  }
  const uint64_t kept = seeds.size();
  Coverage coverage;
  int64_t inputs = 0, steps = 0;
  for (uint64_t i = 0; i < kept + arguments.sequences; ++i) {
    const uint64_t seed = i < kept ? seeds[i] : arguments.first_seed + (i - kept);
    // Comparing two runs as text costs three times a plain run.
    const SequenceResult result =
        RunSequence(seed, {.log = false, .replay = seed % 16 == 0}, &coverage);
    inputs += result.inputs;
    steps += result.steps;
    if (!result.violation.empty()) return ShowOne(seed, result.violation, argv[0]);
  }
  const int64_t count = static_cast<int64_t>(kept + arguments.sequences);
  std::printf(
      "%lld sequences (seeds %llu to %llu, and %llu kept ones), %lld inputs in %lld steps\n",
      static_cast<long long>(count), static_cast<unsigned long long>(arguments.first_seed),
      static_cast<unsigned long long>(arguments.first_seed + arguments.sequences - 1),
      static_cast<unsigned long long>(kept), static_cast<long long>(inputs),
      static_cast<long long>(steps));
  if (!arguments.coverage) return EXIT_SUCCESS;
  std::fputs(coverage.Table().c_str(), stdout);
  if (inputs < 100 * count) {
    std::printf("a sequence must have 100 inputs on average, these have %lld\n",
                static_cast<long long>(inputs / count));
    return EXIT_FAILURE;
  }
  const std::vector<std::string> missing = coverage.Missing();
  for (const std::string& name : missing) std::printf("never reached: %s\n", name.c_str());
  return missing.empty() ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace
}  // namespace rserve::test

int main(int argc, char** argv) { return rserve::test::Main(argc, argv); }
