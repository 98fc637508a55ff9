#include "src/runtime/model/sampler.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "absl/strings/str_cat.h"

namespace rserve::runtime {

namespace {

// One step of SplitMix64, as a number in [0, 1).
double UniformFromSeed(uint64_t seed) {
  uint64_t z = seed + 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  z ^= z >> 31;
  return static_cast<double>(z >> 11) * 0x1.0p-53;
}

// A draw from the smallest set of most probable tokens that holds top_p of the probability.
int32_t Draw(absl::Span<const float> logits, float max_logit, const Sampling& sampling) {
  struct Candidate {
    int32_t id;
    double weight;
  };
  std::vector<Candidate> candidates;
  candidates.reserve(logits.size());
  double total = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    const double weight =
        std::exp((static_cast<double>(logits[i]) - static_cast<double>(max_logit)) /
                 static_cast<double>(sampling.temperature));
    candidates.push_back({static_cast<int32_t>(i), weight});
    total += weight;
  }
  std::sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
    return a.weight != b.weight ? a.weight > b.weight : a.id < b.id;
  });
  size_t kept = 0;
  double kept_weight = 0;
  while (kept < candidates.size() && kept_weight < static_cast<double>(sampling.top_p) * total) {
    kept_weight += candidates[kept++].weight;
  }
  double left = UniformFromSeed(sampling.seed) * kept_weight;
  for (size_t i = 0; i < kept; ++i) {
    left -= candidates[i].weight;
    if (left < 0) return candidates[i].id;
  }
  return candidates[kept - 1].id;  // rounding left a little over
}

}  // namespace

absl::Status ValidateSampling(const Sampling& sampling) {
  if (!std::isfinite(sampling.temperature) || sampling.temperature < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("temperature is ", sampling.temperature, ", must be finite and at least 0"));
  }
  if (!(sampling.top_p > 0) || sampling.top_p > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("top_p is ", sampling.top_p, ", must be above 0 and at most 1"));
  }
  return absl::OkStatus();
}

absl::StatusOr<FirstToken> SampleToken(absl::Span<const float> logits, const Sampling& sampling) {
  if (logits.empty()) return absl::InternalError("no logits to choose a token from");
  size_t best = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (std::isnan(logits[i])) {
      return absl::InternalError(absl::StrCat("the logit of token ", i, " is not a number"));
    }
    if (logits[i] > logits[best]) best = i;
  }
  const float max_logit = logits[best];
  if (!std::isfinite(max_logit)) {
    return absl::InternalError(absl::StrCat("the largest logit is ", max_logit));
  }
  double sum = 0;
  for (const float logit : logits) {
    sum += std::exp(static_cast<double>(logit) - static_cast<double>(max_logit));
  }
  FirstToken first;
  first.token =
      TakesLikeliest(sampling) ? static_cast<int32_t>(best) : Draw(logits, max_logit, sampling);
  first.logprob = static_cast<float>(static_cast<double>(logits[static_cast<size_t>(first.token)]) -
                                     static_cast<double>(max_logit) - std::log(sum));
  return first;
}

absl::StatusOr<FirstToken> TakeLikeliest(const backend::Likeliest& likeliest) {
  if (likeliest.token < 0 || !std::isfinite(likeliest.logprob)) {
    return absl::InternalError(
        absl::StrCat("the likeliest token is ", likeliest.token, ", its log-probability ",
                     likeliest.logprob, ": a logit is not a number or the largest is infinite"));
  }
  FirstToken first;
  first.token = likeliest.token;
  first.logprob = likeliest.logprob;
  return first;
}

}  // namespace rserve::runtime
