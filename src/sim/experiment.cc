#include "src/sim/experiment.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "src/sim/scheme.h"

namespace rserve::sim {
namespace {

void AddTo(Summary* sum, const Summary& one, double weight) {
  sum->requests += one.requests;
  sum->failed += one.failed;
  sum->ttft_mean_s += weight * one.ttft_mean_s;
  sum->ttft_p50_s += weight * one.ttft_p50_s;
  sum->ttft_p90_s += weight * one.ttft_p90_s;
  sum->ttft_p99_s += weight * one.ttft_p99_s;
  sum->ttft_max_s = std::max(sum->ttft_max_s, one.ttft_max_s);
  sum->tokens_per_s += weight * one.tokens_per_s;
  sum->requests_per_s += weight * one.requests_per_s;
  sum->slo_attainment += weight * one.slo_attainment;
  sum->utilisation.resize(std::max(sum->utilisation.size(), one.utilisation.size()));
  for (size_t w = 0; w < one.utilisation.size(); ++w) {
    sum->utilisation[w] += weight * one.utilisation[w];
  }
  sum->peak_embedding_bytes = std::max(sum->peak_embedding_bytes, one.peak_embedding_bytes);
  sum->peak_open_requests = std::max(sum->peak_open_requests, one.peak_open_requests);
  sum->mean_encode_batch_tokens += weight * one.mean_encode_batch_tokens;
  sum->mean_micro_batch_tokens += weight * one.mean_micro_batch_tokens;
}

}  // namespace

absl::StatusOr<Point> Measure(const SimConfig& config, WorkloadSpec spec,
                              const std::vector<uint64_t>& seeds) {
  Point point;
  point.rate = spec.rate;
  const double weight = 1.0 / static_cast<double>(std::max<size_t>(seeds.size(), 1));
  for (uint64_t seed : seeds) {
    spec.seed = seed;
    const std::vector<SimRequest> requests = DrainSource(*MakeSource(spec));
    auto source = MakeSource(requests);
    absl::StatusOr<SimResult> result = Simulate(config, *source);
    if (!result.ok()) return result.status();
    AddTo(&point.summary, Summarise(*result, config.slo_s), weight);
    const Bounds bounds = ComputeBounds(config, requests);
    point.bounds.critical_path_s += weight * bounds.critical_path_s;
    point.bounds.fcfs_s += weight * bounds.fcfs_s;
    point.bounds.shortest_s += weight * bounds.shortest_s;
    point.bounds.tokens_per_s += weight * bounds.tokens_per_s;
  }
  return point;
}

absl::StatusOr<Point> MeasureRequests(const SimConfig& config,
                                      const std::vector<SimRequest>& requests) {
  auto source = MakeSource(requests);
  absl::StatusOr<SimResult> result = Simulate(config, *source);
  if (!result.ok()) return result.status();
  Point point;
  point.summary = Summarise(*result, config.slo_s);
  point.bounds = ComputeBounds(config, requests);
  if (requests.size() > 1) {
    const auto [first, last] = std::minmax_element(
        requests.begin(), requests.end(),
        [](const SimRequest& a, const SimRequest& b) { return a.arrival_ns < b.arrival_ns; });
    const double span_s = static_cast<double>(last->arrival_ns - first->arrival_ns) * 1e-9;
    if (span_s > 0) point.rate = static_cast<double>(requests.size() - 1) / span_s;
  }
  return point;
}

absl::StatusOr<double> Capacity(const SimConfig& config, WorkloadSpec spec,
                                const std::vector<uint64_t>& seeds) {
  const std::vector<SimRequest> sample = DrainSource(*MakeSource(spec));
  double tokens = 0;
  for (const SimRequest& request : sample) tokens += static_cast<double>(request.prompt_tokens);
  if (tokens <= 0) return 0.0;
  const double served = ComputeBounds(config, sample).tokens_per_s;
  spec.rate = 3 * served * static_cast<double>(sample.size()) / tokens;
  spec.arrivals = ArrivalKind::kPoisson;
  absl::StatusOr<Point> point = Measure(config, spec, seeds);
  if (!point.ok()) return point.status();
  return point->summary.requests_per_s;
}

SimConfig MakeConfig(std::string_view scheme, std::string_view layout, std::string_view calibration,
                     std::string_view model, std::string_view hardware) {
  SimConfig config;
  config.model = *FindModelShape(model);
  config.hardware = *FindHardware(hardware);
  config.calibration = *FindCalibration(calibration);
  config.layout = *ParseLayout(layout);
  ApplyScheme(scheme, &config).IgnoreError();  // names of this project's own tables
  return config;
}

std::vector<int64_t> BalancedLayers(const SimConfig& config, const WorkloadSpec& spec) {
  WorkloadSpec sample = spec;
  sample.requests = 200;
  return BalancedLayers(config, DrainSource(*MakeSource(sample)));
}

std::vector<int64_t> BalancedLayers(const SimConfig& config,
                                    absl::Span<const SimRequest> requests) {
  const Layout& layout = config.layout;
  if (layout.encoders > 0 || layout.stages < 2) return {};
  const CostModel cost(config.model, config.hardware, config.calibration);
  const int64_t layers = config.model.language.layers;
  // Of all requests: what encoding takes, and what a layer takes in chunks of 2048 tokens.
  double encode = 0, layer = 0;
  const StageCost one = {1, layout.ranks, 1};
  const ChunkWork none;
  const double fixed = static_cast<double>(cost.StageNs(one, {&none, 1}, true));
  for (const SimRequest& request : requests) {
    if (!request.items.empty()) {
      encode += static_cast<double>(cost.EncodeNs(UnitTokens(request), layout.ranks));
    }
    for (int64_t at = 0; at < request.prompt_tokens; at += 2048) {
      const ChunkWork chunk = {std::min<int64_t>(2048, request.prompt_tokens - at), at, 0, false};
      layer += static_cast<double>(cost.StageNs(one, {&chunk, 1}, true)) - fixed;
    }
  }
  std::vector<int64_t> best;
  double least = 0;
  for (int64_t thin = 1; thin <= layers - (layout.stages - 1); ++thin) {
    std::vector<int64_t> split = ThinFirstLayers(layers, layout.stages, thin);
    const double first = encode + static_cast<double>(split[0]) * layer;
    const double slowest = std::max(first, static_cast<double>(split[1]) * layer);
    if (best.empty() || slowest < least) {
      least = slowest;
      best = std::move(split);
    }
  }
  return best;
}

}  // namespace rserve::sim
