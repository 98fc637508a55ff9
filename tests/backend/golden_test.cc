// The CPU backend against the reference's numbers.

#include <vector>

#include "tests/backend/golden_case.h"
#include "tests/support/catch.h"

namespace rserve::testing {
namespace {

constexpr double kTolerance = 1e-4;

std::vector<float> Join(const std::vector<std::vector<float>>& parts) {
  std::vector<float> all;
  for (const auto& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

TEST_CASE("embeddings agree with the reference") {
  for (const std::string& name : CaseNames()) {
    const GoldenCase golden = LoadCase(name);
    cpu::ThreadPool pool(2, {});
    const auto encoder = cpu::MakeCpuEncoder(golden.model, &pool);
    PoisonEncoder(*encoder, golden);
    for (const Prompt& prompt : golden.prompts) {
      if (prompt.grids.empty()) continue;
      const double error =
          RelativeError(Join(EncodeItems(*encoder, golden, prompt, true)), prompt.embeddings);
      INFO(name << ": relative error " << error);
      CHECK(error <= kTolerance);
    }
  }
}

TEST_CASE("last-token logits agree with the reference, whole and in chunks") {
  for (const std::string& name : CaseNames()) {
    const GoldenCase golden = LoadCase(name);
    cpu::ThreadPool pool(1, {});
    const auto encoder = cpu::MakeCpuEncoder(golden.model, &pool);
    Pipeline pipeline(golden, {}, {40, 4}, 1);
    pipeline.Poison();
    for (const Prompt& prompt : golden.prompts) {
      const auto items = EncodeItems(*encoder, golden, prompt, true);
      // 5 and 11 put boundaries inside images.
      for (int64_t chunk : {prompt.tokens(), int64_t{5}, int64_t{11}}) {
        const double error =
            RelativeError(pipeline.Run(pipeline.Begin(prompt, items, 0, 7), chunk), prompt.logits);
        INFO(name << ", chunks of " << chunk << ": relative error " << error);
        CHECK(error <= kTolerance);
      }
    }
  }
}

}  // namespace
}  // namespace rserve::testing
