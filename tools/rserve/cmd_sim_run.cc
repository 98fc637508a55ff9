// rserve sim run, rserve sim workload.

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "src/sim/config_json.h"
#include "tools/rserve/files.h"
#include "tools/rserve/progress.h"
#include "tools/rserve/sim_flags.h"
#include "tools/rserve/text.h"

namespace rserve::tool {
namespace {

constexpr CommandText kRunText = {
    "sim run", "Simulates one system under one workload.\n",
    "  rserve sim run --scheme adaptive --layout PP5 --rate 1.2\n"
    "  rserve sim run --workload mmmu-2k --rate 0.8 --slo 10 --json result.json --trace "
    "trace.json\n"
    "  rserve sim run --requests-file arrivals.jsonl --config system.json\n"};

// For chrome://tracing and Perfetto.
std::string TraceJson(const sim::SimResult& result) {
  std::string out = "{\"traceEvents\": [\n";
  for (size_t i = 0; i < result.spans.size(); ++i) {
    const sim::SimSpan& span = result.spans[i];
    const char* name = span.kind == sim::SimSpan::Kind::kPrepare  ? "prepare"
                       : span.kind == sim::SimSpan::Kind::kEncode ? "encode"
                                                                  : "prefill";
    absl::StrAppendFormat(&out,
                          "{\"ph\": \"X\", \"pid\": 1, \"tid\": %d, \"name\": \"%s\", \"ts\": "
                          "%.3f, \"dur\": %.3f, \"args\": {\"tokens\": %d, \"request\": %d}}%s\n",
                          span.worker + 1, name, static_cast<double>(span.begin_ns) * 1e-3,
                          static_cast<double>(span.end_ns - span.begin_ns) * 1e-3, span.tokens,
                          span.first_request, i + 1 < result.spans.size() ? "," : "");
  }
  return out + "]}\n";
}

std::string ResultJson(const sim::SimConfig& config, const sim::Summary& s, const sim::Bounds& b) {
  std::string use;
  for (double share : s.utilisation) {
    absl::StrAppendFormat(&use, "%s%.6f", use.empty() ? "" : ", ", share);
  }
  return absl::StrFormat(
      "{\"requests\": %d, \"failed\": %d,\n"
      " \"ttft_s\": {\"mean\": %.9f, \"p50\": %.9f, \"p90\": %.9f, \"p99\": %.9f, \"max\": %.9f},\n"
      " \"tokens_per_s\": %.3f, \"requests_per_s\": %.6f, \"slo_attainment\": %.6f,\n"
      " \"bounds\": {\"critical_path_s\": %.9f, \"fcfs_s\": %.9f, \"shortest_first_s\": %.9f, "
      "\"tokens_per_s\": %.3f},\n"
      " \"utilisation\": [%s], \"peak_embedding_bytes\": %d, \"peak_open_requests\": %d,\n"
      " \"config\": %s}\n",
      s.requests, s.failed, s.ttft_mean_s, s.ttft_p50_s, s.ttft_p90_s, s.ttft_p99_s, s.ttft_max_s,
      s.tokens_per_s, s.requests_per_s, s.slo_attainment, b.critical_path_s, b.fcfs_s, b.shortest_s,
      b.tokens_per_s, use, s.peak_embedding_bytes, s.peak_open_requests, sim::ToJson(config));
}

void Print(const sim::SimConfig& config, const sim::Summary& s, const sim::Bounds& b) {
  std::printf("%s on %s, %s, %s, calibration %s (simulated)\n", config.scheme.c_str(),
              sim::LayoutName(config.layout).c_str(), config.model.name.c_str(),
              config.hardware.name.c_str(), config.calibration.name.c_str());
  if (!config.layout.layers.empty()) {
    std::string layers;
    for (int64_t n : config.layout.layers) absl::StrAppend(&layers, layers.empty() ? "" : "/", n);
    std::printf("layers      %s\n", layers.c_str());
  }
  std::printf("requests    %d, %d failed, at most %d open\n", static_cast<int>(s.requests),
              static_cast<int>(s.failed), static_cast<int>(s.peak_open_requests));
  std::printf("TTFT        mean %.3f s, p50 %.3f s, p90 %.3f s, p99 %.3f s, most %.3f s\n",
              s.ttft_mean_s, s.ttft_p50_s, s.ttft_p90_s, s.ttft_p99_s, s.ttft_max_s);
  std::printf("bounds      mean TTFT: alone %.3f s, first come %.3f s, shortest first %.3f s\n",
              b.critical_path_s, b.fcfs_s, b.shortest_s);
  const double best = std::max(b.critical_path_s, b.shortest_s);
  std::printf("            the mean is %s above what any policy needs on this layout\n",
              FormatPercent(s.ttft_mean_s / best - 1).c_str());
  std::printf("throughput  %.0f tokens/s of at most %.0f, %.3f requests/s\n", s.tokens_per_s,
              b.tokens_per_s, s.requests_per_s);
  if (config.slo_s > 0) {
    std::printf("SLO         %s within %g s\n", FormatPercent(s.slo_attainment).c_str(),
                config.slo_s);
  }
  std::string use;
  for (double share : s.utilisation) absl::StrAppend(&use, " ", FormatPercent(share));
  std::printf("in use     %s (by worker)\n", use.c_str());
  std::printf("embeddings  at most %s\n", FormatBytes(s.peak_embedding_bytes).c_str());
  std::printf("on average  %.0f tokens a micro-batch, %.0f an encode batch\n",
              s.mean_micro_batch_tokens, s.mean_encode_batch_tokens);
}

}  // namespace

int SimRunCommand(Args args) {
  SystemFlags system;
  WorkloadFlags workload;
  std::string json, trace, csv, config_out;
  OptionTable table;
  AddSystemFlags(&table, &system);
  AddWorkloadFlags(&table, &workload);
  table.Section("Output");
  table.String("json", "FILE", &json, "the result, with the configuration");
  table.String("csv", "FILE", &csv, "arrival and TTFT of every request");
  table.String("trace", "FILE", &trace, "what ran when on which worker, for a trace viewer");
  table.String("write-config", "FILE", &config_out, "the configuration, to edit");
  if (std::optional<int> over = ParseOrHelp(kRunText, &table, args)) return *over;

  const absl::Status outputs =
      CheckOutputs({json, csv, trace, config_out}, {workload.file, system.config_file});
  if (!outputs.ok()) return FailUsage(outputs);
  auto traffic = MakeTraffic(workload);
  if (!traffic.ok()) return FailUsage(traffic.status());
  auto config = MakeSystem(system, system.scheme, system.layout, *traffic);
  if (!config.ok()) return FailUsage(config.status());
  if (!config_out.empty()) {
    if (absl::Status s = WriteFile(config_out, sim::ToJson(*config)); !s.ok()) return Fail(s);
  }
  // Made as they arrive: a long run holds the open ones.
  const auto requests = [&] {
    return traffic->recorded.has_value() ? sim::MakeSource(*traffic->recorded)
                                         : sim::MakeSource(traffic->spec);
  };
  Progress progress("simulating");
  sim::SimOptions options;
  options.spans = !trace.empty();
  const int64_t total = traffic->recorded.has_value()
                            ? static_cast<int64_t>(traffic->recorded->size())
                            : traffic->spec.requests;
  options.progress = [&](int64_t done) { progress.Update(done, total); };
  const std::unique_ptr<sim::RequestSource> source = requests();
  auto result = sim::Simulate(*config, *source, options);
  progress.Finish();
  if (!result.ok()) return FailUsage(result.status());
  const sim::Summary summary = sim::Summarise(*result, config->slo_s);
  const sim::Bounds bounds = traffic->recorded.has_value()
                                 ? sim::ComputeBounds(*config, *traffic->recorded)
                                 : sim::ComputeBounds(*config, requests);
  if (summary.failed == summary.requests) return FailUsage(NothingFits(summary.requests));
  Print(*config, summary, bounds);
  if (!json.empty()) {
    if (absl::Status s = WriteFile(json, ResultJson(*config, summary, bounds)); !s.ok()) {
      return Fail(s);
    }
  }
  if (!trace.empty()) {
    if (absl::Status s = WriteFile(trace, TraceJson(*result)); !s.ok()) return Fail(s);
  }
  if (!csv.empty()) {
    std::string rows = "arrival_ns,ttft_ns\n";
    for (const sim::RequestOutcome& r : result->requests) {
      absl::StrAppend(&rows, r.arrival_ns, ",", r.ttft_ns, "\n");
    }
    if (absl::Status s = WriteFile(csv, rows); !s.ok()) return Fail(s);
  }
  return kExitOk;
}

int SimWorkloadCommand(Args args) {
  constexpr CommandText text = {
      "sim workload", "Writes a workload as JSONL.\n",
      "  rserve sim workload --workload video --rate 0.5 > video.jsonl\n"};
  WorkloadFlags workload;
  std::string out;
  OptionTable table;
  AddWorkloadFlags(&table, &workload);
  table.Section("Output");
  table.String("out", "FILE", &out, "where to; default: standard output");
  if (std::optional<int> over = ParseOrHelp(text, &table, args)) return *over;
  if (absl::Status s = CheckOutputs({out}, {workload.file}); !s.ok()) return FailUsage(s);
  auto traffic = MakeTraffic(workload);
  if (!traffic.ok()) return FailUsage(traffic.status());
  const std::string jsonl = sim::ToJsonl(Requests(*traffic));
  if (out.empty()) {
    std::fputs(jsonl.c_str(), stdout);
    return kExitOk;
  }
  const absl::Status status = WriteFile(out, jsonl);
  return status.ok() ? kExitOk : Fail(status);
}

}  // namespace rserve::tool
