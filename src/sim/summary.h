// What a run comes to: latency, throughput, attainment, use of the devices.

#ifndef RSERVE_SRC_SIM_SUMMARY_H_
#define RSERVE_SRC_SIM_SUMMARY_H_

#include <cstdint>
#include <vector>

#include "src/sim/simulator.h"

namespace rserve::sim {

struct Summary {
  int64_t requests = 0;
  int64_t failed = 0;
  double ttft_mean_s = 0;
  double ttft_p50_s = 0;
  double ttft_p90_s = 0;
  double ttft_p99_s = 0;
  double ttft_max_s = 0;
  double tokens_per_s = 0;  // prompt tokens over the time from the first arrival to the last token
  double requests_per_s = 0;
  double slo_attainment = 0;        // share of the requests within the SLO; 0 without one
  std::vector<double> utilisation;  // by worker, over the same time
  int64_t peak_embedding_bytes = 0;
  int64_t peak_open_requests = 0;
  double mean_encode_batch_tokens = 0;
  double mean_micro_batch_tokens = 0;
};

Summary Summarise(const SimResult& result, double slo_s);

// Nearest rank: the smallest value that at least `fraction` of them do not exceed. 0 of none.
double Percentile(std::vector<double> values, double fraction);

}  // namespace rserve::sim

#endif  // RSERVE_SRC_SIM_SUMMARY_H_
