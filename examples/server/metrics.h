// Counters and histograms in the text format that Prometheus reads.

#ifndef RSERVE_EXAMPLES_SERVER_METRICS_H_
#define RSERVE_EXAMPLES_SERVER_METRICS_H_

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "rserve/rserve.h"

namespace server {

class Histogram {
 public:
  void Observe(double seconds);
  // The lines of the histogram `name`.
  void Write(const std::string& name, const std::string& help, std::string* out) const;

 private:
  static constexpr std::array<double, 13> kBounds = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,
                                                     0.25,  0.5,    1,     2.5,  5,     10};
  std::array<int64_t, kBounds.size() + 1> counts_{};
  double sum_ = 0;
  int64_t total_ = 0;
};

class Metrics {
 public:
  void Response(int code);
  // A request that came to its first token.
  void FirstToken(const rserve_detail_info& info);
  std::string Text(const rserve_stats& stats) const;

 private:
  mutable std::mutex mutex_;
  std::map<int, int64_t> responses_;
  Histogram queue_wait_, media_, encode_, gate_stall_, prefill_, ttft_;
};

}  // namespace server

#endif  // RSERVE_EXAMPLES_SERVER_METRICS_H_
