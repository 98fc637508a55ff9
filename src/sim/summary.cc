#include "src/sim/summary.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace rserve::sim {
namespace {

double OfSorted(const std::vector<double>& sorted, double fraction) {
  if (sorted.empty()) return 0;
  const auto rank =
      static_cast<size_t>(std::ceil(fraction * static_cast<double>(sorted.size()) - 1e-9));
  return sorted[std::min(std::max<size_t>(rank, 1), sorted.size()) - 1];
}

}  // namespace

double Percentile(std::vector<double> values, double fraction) {
  std::sort(values.begin(), values.end());
  return OfSorted(values, fraction);
}

Summary Summarise(const SimResult& result, double slo_s) {
  Summary summary;
  summary.requests = static_cast<int64_t>(result.requests.size());
  summary.failed = result.failed;
  summary.peak_embedding_bytes = result.peak_embedding_bytes;
  summary.peak_open_requests = result.peak_open_requests;
  if (result.requests.empty()) return summary;
  std::vector<double> ttft;
  ttft.reserve(result.requests.size());
  double sum = 0;
  int64_t in_time = 0;
  for (const RequestOutcome& outcome : result.requests) {
    if (outcome.ttft_ns < 0) continue;
    ttft.push_back(static_cast<double>(outcome.ttft_ns) * 1e-9);
    sum += ttft.back();
    in_time += ttft.back() <= slo_s ? 1 : 0;
  }
  if (slo_s > 0) {
    summary.slo_attainment =
        static_cast<double>(in_time) / static_cast<double>(result.requests.size());
  }
  if (ttft.empty()) return summary;
  std::sort(ttft.begin(), ttft.end());
  summary.ttft_mean_s = sum / static_cast<double>(ttft.size());
  summary.ttft_p50_s = OfSorted(ttft, 0.5);
  summary.ttft_p90_s = OfSorted(ttft, 0.9);
  summary.ttft_p99_s = OfSorted(ttft, 0.99);
  summary.ttft_max_s = ttft.back();
  const double span_s =
      static_cast<double>(result.end_ns - result.requests.front().arrival_ns) * 1e-9;
  if (span_s > 0) {
    summary.tokens_per_s = static_cast<double>(result.prompt_tokens) / span_s;
    summary.requests_per_s = static_cast<double>(ttft.size()) / span_s;
    for (TimeNs busy : result.busy_ns) {
      summary.utilisation.push_back(static_cast<double>(busy) * 1e-9 / span_s);
    }
  }
  if (result.encode_batches > 0) {
    summary.mean_encode_batch_tokens =
        static_cast<double>(result.encoded_tokens) / static_cast<double>(result.encode_batches);
  }
  if (result.micro_batches > 0) {
    summary.mean_micro_batch_tokens =
        static_cast<double>(result.prompt_tokens) / static_cast<double>(result.micro_batches);
  }
  return summary;
}

}  // namespace rserve::sim
