// Random numbers that are the same for the same seed on every run: a SplitMix64 stream and the
// distributions the workloads need.

#ifndef RSERVE_SRC_SIM_RANDOM_H_
#define RSERVE_SRC_SIM_RANDOM_H_

#include <cmath>
#include <cstdint>

namespace rserve::sim {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t Next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  // [0, 1).
  double Uniform() { return static_cast<double>(Next() >> 11) * 0x1.0p-53; }
  // [0, bound), `bound` at least 1.
  int64_t Below(int64_t bound) {
    return static_cast<int64_t>(Uniform() * static_cast<double>(bound));
  }
  double Exponential(double mean) { return -mean * std::log1p(-Uniform()); }
  double Normal() {
    const double radius = std::sqrt(-2 * std::log1p(-Uniform()));
    return radius * std::cos(6.283185307179586 * Uniform());
  }
  // By its mean and its coefficient of variation (standard deviation over mean).
  double LogNormal(double mean, double cv) {
    const double variance = std::log1p(cv * cv);
    return mean * std::exp(std::sqrt(variance) * Normal() - variance / 2);
  }
  int64_t Poisson(double mean) {
    const double limit = std::exp(-mean);
    int64_t count = 0;
    for (double product = Uniform(); product > limit; product *= Uniform()) ++count;
    return count;
  }
  // 0, 1, 2, ... with the mean given.
  int64_t Geometric(double mean) {
    return static_cast<int64_t>(std::log1p(-Uniform()) / std::log(mean / (1 + mean)));
  }

 private:
  uint64_t state_;
};

}  // namespace rserve::sim

#endif  // RSERVE_SRC_SIM_RANDOM_H_
