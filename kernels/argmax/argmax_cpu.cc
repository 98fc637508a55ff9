#include <cmath>

#include "kernels/argmax/argmax.h"

namespace rserve::kernels {

int64_t ArgMax(const float* logits, int64_t count) {
  int64_t best = -1;
  for (int64_t i = 0; i < count; ++i) {
    if (std::isnan(logits[i])) continue;
    if (best < 0 || logits[i] > logits[best]) best = i;
  }
  return best;
}

double LogProbability(const float* logits, int64_t count, int64_t index) {
  const int64_t best = ArgMax(logits, count);
  if (best < 0) return std::nan("");
  const double largest = logits[best];
  double sum = 0.0;
  for (int64_t i = 0; i < count; ++i) sum += std::exp(logits[i] - largest);
  return logits[index] - largest - std::log(sum);
}

}  // namespace rserve::kernels
