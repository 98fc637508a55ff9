// What is learned from completions, and how soon.

#include "src/core/rates.h"

#include "tests/core/rng.h"
#include "tests/support/catch.h"

namespace rserve::test {
namespace {

// A device: fixed + per token, with samples of many sizes.
TimeNs Cost(int64_t tokens) { return 8'000'000 + 75'000 * tokens; }

TEST_CASE("a line is found from samples of unlike sizes") {
  Rng rng(1);
  LinearFit fit;
  CHECK_FALSE(fit.known());
  for (int i = 0; i < 20; ++i) {
    const int64_t tokens = rng.In(200, 4000);
    fit.Add(tokens, Cost(tokens));
  }
  REQUIRE(fit.known());
  CHECK(static_cast<double>(fit.fixed_ns()) == Approx(8e6).epsilon(0.01));
  CHECK(static_cast<double>(fit.per_token_q10()) == Approx(75000 * 1024.0).epsilon(0.001));
}

TEST_CASE("when all costs triple, thirty samples bring the new ones, whatever their sizes") {
  for (const bool alike : {false, true}) {
    Rng rng(2);
    LinearFit fit;
    for (int i = 0; i < 50; ++i) {
      const int64_t tokens = rng.In(200, 4000);
      fit.Add(tokens, Cost(tokens));
    }
    for (int i = 0; i < 30; ++i) {
      const int64_t tokens = alike ? 2048 : rng.In(200, 4000);
      fit.Add(tokens, 3 * Cost(tokens));
    }
    CAPTURE(alike);
    CHECK(static_cast<double>(fit.At(2048)) ==
          Approx(3.0 * static_cast<double>(Cost(2048))).epsilon(0.12));
  }
}

TEST_CASE("the split holds although samples of one size cost unlike amounts") {
  Rng rng(5);
  LinearFit fit;
  for (int i = 0; i < 1000; ++i) {
    const int64_t tokens = rng.In(500, 1500);
    // Attention over what came before: up to two fifths of a token's own cost.
    fit.Add(tokens, Cost(tokens) + tokens * rng.In(0, 30'000));
    if (i < 200) continue;
    CAPTURE(i);
    CHECK(static_cast<double>(fit.fixed_ns()) == Approx(8e6).epsilon(0.7));
  }
}

TEST_CASE("samples of one size give a rate but no split") {
  LinearFit fit;
  for (int i = 0; i < 10; ++i) fit.Add(1000, 5'000'000);
  CHECK_FALSE(fit.known());
  CHECK(static_cast<double>(fit.At(1000)) == Approx(5e6).epsilon(0.001));
}

TEST_CASE("no input overflows, and neither part is ever negative") {
  Rng rng(3);
  for (int round = 0; round < 200; ++round) {
    LinearFit fit;
    for (int i = 0; i < 40; ++i) {
      fit.Add(rng.Pick<int64_t>({-5, 0, 1, rng.In(1, 100), INT64_MAX}),
              rng.Pick<TimeNs>({-1, 0, rng.In(0, 1000), int64_t{1} << 39, INT64_MAX}));
      CHECK(fit.fixed_ns() >= 0);
      CHECK(fit.per_token_q10() >= 0);
      CHECK(fit.At(1 << 20) >= 0);
    }
  }
}

TEST_CASE("the load is the share of its time that the slowest stage needs for what comes") {
  Rates rates(2);
  CHECK(rates.load_q10() == 0);
  TimeNs now = 1;
  Rng rng(4);
  for (int i = 0; i < 300; ++i) {
    const int64_t tokens = rng.In(500, 1500);
    now += 200'000'000;  // a thousand tokens in 200 ms
    rates.StageTook(0, tokens, Cost(tokens) / 2, now);
    rates.StageTook(1, tokens, Cost(tokens), now);
  }
  CHECK(rates.load_q10() / 1024.0 == Approx(0.375).epsilon(0.1));
}

TEST_CASE("integer square roots are rounded down") {
  CHECK(IntegerSqrt(-4) == 0);
  CHECK(IntegerSqrt(0) == 0);
  for (const int64_t root : {int64_t{1}, int64_t{2}, int64_t{1000}, int64_t{3037000499}}) {
    CHECK(IntegerSqrt(root * root) == root);
    CHECK(IntegerSqrt(root * root - 1) == root - 1);
  }
  CHECK(IntegerSqrt(INT64_MAX) == 3037000499);
}

}  // namespace
}  // namespace rserve::test
