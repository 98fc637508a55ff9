#include "src/runtime/model/sampler.h"

#include <cmath>
#include <limits>
#include <map>
#include <vector>

#include "tests/support/catch.h"

namespace rserve::runtime {
namespace {

TEST_CASE("without temperature the largest logit is taken, ties to the lowest id") {
  const std::vector<float> logits = {1, 3, 2, 3};
  const auto token = SampleToken(logits, Sampling());
  REQUIRE(token.ok());
  CHECK(token->token == 1);
  const double sum = std::exp(-2.0) + 1 + std::exp(-1.0) + 1;
  CHECK(static_cast<double>(token->logprob) == Approx(-std::log(sum)));
}

TEST_CASE("a seed gives the same token, seeds together the distribution") {
  const std::vector<float> logits = {0, std::log(2.0f), std::log(5.0f)};
  Sampling sampling;
  sampling.temperature = 1;
  std::map<int32_t, int> counts;
  for (uint64_t seed = 0; seed < 8000; ++seed) {
    sampling.seed = seed;
    const int32_t token = SampleToken(logits, sampling)->token;
    CHECK(SampleToken(logits, sampling)->token == token);
    ++counts[token];
  }
  CHECK(counts[0] == Approx(1000).epsilon(0.1));
  CHECK(counts[1] == Approx(2000).epsilon(0.1));
  CHECK(counts[2] == Approx(5000).epsilon(0.1));
}

TEST_CASE("top_p keeps the smallest set that reaches it, and at least one token") {
  const std::vector<float> logits = {0, std::log(2.0f), std::log(5.0f)};
  Sampling sampling;
  sampling.temperature = 1;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    sampling.seed = seed;
    sampling.top_p = 0.62f;  // 5/8 is enough
    CHECK(SampleToken(logits, sampling)->token == 2);
    sampling.top_p = 0.7f;
    CHECK(SampleToken(logits, sampling)->token != 0);
    sampling.top_p = std::numeric_limits<float>::denorm_min();
    CHECK(SampleToken(logits, sampling)->token == 2);
  }
}

TEST_CASE("a temperature near 0 is the largest logit") {
  const std::vector<float> logits = {-5, 40, 39.999f};
  Sampling sampling;
  sampling.temperature = 1e-30f;
  CHECK(SampleToken(logits, sampling)->token == 1);
}

TEST_CASE("logits that are no numbers are an error, not a token") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  for (const std::vector<float>& logits :
       {std::vector<float>{}, {1, nan}, {nan, 1}, {inf, 1}, {-inf, -inf}}) {
    CHECK(SampleToken(logits, Sampling()).status().code() == absl::StatusCode::kInternal);
  }
  CHECK(SampleToken({-inf, 1}, Sampling())->token == 1);
}

TEST_CASE(
    "a backend's choice is taken as it is, and is an error where its logits were no numbers") {
  const auto first = TakeLikeliest({7, -0.25f});
  REQUIRE(first.ok());
  CHECK(first->token == 7);
  CHECK(first->logprob == -0.25f);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  CHECK(TakeLikeliest({7, nan}).status().code() == absl::StatusCode::kInternal);
  CHECK(TakeLikeliest({-1, nan}).status().code() == absl::StatusCode::kInternal);
  Sampling sampling;
  CHECK(TakesLikeliest(sampling));
  sampling.temperature = std::numeric_limits<float>::denorm_min();
  CHECK(!TakesLikeliest(sampling));
}

}  // namespace
}  // namespace rserve::runtime
