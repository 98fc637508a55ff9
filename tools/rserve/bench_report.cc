#include "tools/rserve/bench_report.h"

#include <algorithm>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "src/sim/fit.h"
#include "tools/rserve/text.h"

namespace rserve::tool {
namespace {

using nlohmann::json;

// The median over a series' passes of a value of each.
double MedianOf(const BenchSeries& series, absl::FunctionRef<double(const Pass&)> value) {
  std::vector<double> values;
  for (const Pass& pass : series.passes) values.push_back(value(pass));
  return Median(std::move(values));
}

struct Numbers {
  double mean = 0, p50 = 0, p99 = 0;  // TTFT, ms
  double tokens_per_s = 0;
  double slo = 0;  // share of requests
  double bound_ratio = 0;
  double encode_batches = 0;
  int64_t peak_embedding_bytes = 0;
  int64_t peak_rss_bytes = 0;
};

Numbers Summarise(const BenchReport& report, const BenchSeries& series) {
  Numbers out;
  out.mean = MedianOf(series, [](const Pass& pass) { return Mean(pass.ttft_ms); });
  out.p50 = MedianOf(series, [](const Pass& pass) { return Percentile(pass.ttft_ms, 0.50); });
  out.p99 = MedianOf(series, [](const Pass& pass) { return Percentile(pass.ttft_ms, 0.99); });
  out.encode_batches =
      MedianOf(series, [](const Pass& pass) { return static_cast<double>(pass.encode_batches); });
  out.tokens_per_s = MedianOf(series, [](const Pass& pass) { return pass.tokens_per_s; });
  out.slo = MedianOf(series, [&](const Pass& pass) {
    const auto attained = std::count_if(pass.ttft_ms.begin(), pass.ttft_ms.end(),
                                        [&](double ms) { return ms <= report.slo_ms; });
    return static_cast<double>(attained) / static_cast<double>(pass.ttft_ms.size());
  });
  std::vector<double> ratios;
  for (size_t i = 0; i < series.passes.size(); ++i) {
    ratios.push_back(Mean(series.passes[i].ttft_ms) / report.bound_ms[i]);
    out.peak_embedding_bytes =
        std::max(out.peak_embedding_bytes, series.passes[i].peak_embedding_bytes);
    out.peak_rss_bytes = std::max(out.peak_rss_bytes, series.passes[i].peak_rss_bytes);
  }
  out.bound_ratio = Median(std::move(ratios));
  return out;
}

// Median over the repeats of a's value by b's.
double MedianRatio(const BenchSeries& a, const BenchSeries& b,
                   absl::FunctionRef<double(const Pass&)> value) {
  std::vector<double> ratios;
  for (size_t i = 0; i < a.passes.size(); ++i) {
    ratios.push_back(value(a.passes[i]) / value(b.passes[i]));
  }
  return Median(std::move(ratios));
}

double TtftRatio(const BenchSeries& a, const BenchSeries& b) {
  return MedianRatio(a, b, [](const Pass& pass) { return Mean(pass.ttft_ms); });
}

double ThroughputRatio(const BenchSeries& a, const BenchSeries& b) {
  return MedianRatio(a, b, [](const Pass& pass) { return pass.tokens_per_s; });
}

std::string Name(const EngineCase& engine_case) {
  return absl::StrCat(SchemeText(engine_case.scheme), " C=", engine_case.EncodeBatchText());
}

double MedianMs(const std::vector<SoloTimes>& solo, absl::FunctionRef<TimeNs(const SoloTimes&)> f) {
  std::vector<double> values;
  for (const SoloTimes& times : solo) values.push_back(static_cast<double>(f(times)) / 1e6);
  return Median(std::move(values));
}

double SoloEncodeMs(const BenchReport& report) {
  return MedianMs(report.solo, [](const SoloTimes& solo) { return solo.encode_ns(); });
}

double SoloPrefillMs(const BenchReport& report) {
  return MedianMs(report.solo, [](const SoloTimes& solo) { return solo.prefill_ns(); });
}

}  // namespace

std::string RenderReport(const BenchReport& report) {
  const Workload& workload = report.workload;
  std::string out = absl::StrFormat(
      "%d requests, each of %d pictures %dx%d and %d prompt tokens (%d of text after the last "
      "picture); median of %d\n",
      workload.requests, workload.images, workload.image_width, workload.image_height,
      report.shape.prompt_tokens, workload.trailing_text_tokens, report.bound_ms.size());
  absl::StrAppendFormat(
      &out, "one request alone: encode %.1f ms, prefill %.1f ms, critical-path bound %.1f ms\n\n",
      SoloEncodeMs(report), SoloPrefillMs(report), Median(report.bound_ms));

  std::vector<std::string> header = {"scheme",     "topology", "C",          "B",
                                     "TTFT mean",  "p50",      "p99",        "tokens/s",
                                     "TTFT/bound", "batches",  "embeddings", "peak RSS"};
  if (report.slo_ms > 0) header.push_back(absl::StrFormat("<= %g ms", report.slo_ms));
  TextTable table(std::move(header));
  for (const BenchSeries& series : report.series) {
    const Numbers numbers = Summarise(report, series);
    const EngineCase& engine_case = series.engine_case;
    table.Row({SchemeText(engine_case.scheme), series.passes.front().topology,
               engine_case.EncodeBatchText(), absl::StrCat(engine_case.token_budget),
               FormatMs(static_cast<int64_t>(numbers.mean * 1e6)),
               FormatMs(static_cast<int64_t>(numbers.p50 * 1e6)),
               FormatMs(static_cast<int64_t>(numbers.p99 * 1e6)),
               FormatFixed(numbers.tokens_per_s, 0), FormatFixed(numbers.bound_ratio, 3),
               FormatFixed(numbers.encode_batches, 0), FormatBytes(numbers.peak_embedding_bytes),
               FormatBytes(numbers.peak_rss_bytes), FormatPercent(numbers.slo)});
  }
  absl::StrAppend(&out, table.ToString(), "\n");

  const BenchSeries& first = report.series.front();
  absl::StrAppendFormat(&out, "TTFT %s / bound: %.3f\n", Name(first.engine_case),
                        Summarise(report, first).bound_ratio);
  for (size_t i = 1; i < report.series.size(); ++i) {
    const BenchSeries& other = report.series[i];
    absl::StrAppendFormat(&out, "%s / %s: TTFT %.3f, throughput %.3f\n", Name(first.engine_case),
                          Name(other.engine_case), TtftRatio(first, other),
                          ThroughputRatio(first, other));
  }
  return out;
}

namespace {

// [kind, stage, tokens, attention pairs, prompts that end, nanoseconds, worker, begin] of every
// action; begins count from the first.
json ActionsJson(const Pass& pass, const PromptShape& shape) {
  json actions = json::array();
  TimeNs first_ns = kNever;
  for (const TraceSpan& span : pass.spans) first_ns = std::min(first_ns, span.begin_ns);
  for (const TraceSpan& span : pass.spans) {
    int64_t pairs = 0, finished = 0;
    for (const BatchEntry& chunk : span.entries) {
      pairs += sim::AttentionPairs(chunk.tokens, chunk.begin);
      finished += chunk.begin + chunk.tokens == shape.prompt_tokens ? 1 : 0;
    }
    actions.push_back({static_cast<int32_t>(span.kind), span.stage, span.tokens, pairs, finished,
                       span.end_ns - span.begin_ns, span.worker, span.begin_ns - first_ns});
  }
  return actions;
}

}  // namespace

json ReportJson(const BenchReport& report) {
  const Workload& workload = report.workload;
  json runs = json::array();
  json ratios = json::array();
  for (const BenchSeries& series : report.series) {
    const Numbers numbers = Summarise(report, series);
    json entry = {{"scheme", SchemeText(series.engine_case.scheme)},
                  {"topology", series.passes.front().topology},
                  {"encode_batch_tokens", series.engine_case.EncodeBatchText()},
                  {"token_budget", series.engine_case.token_budget},
                  {"ttft_ms", {{"mean", numbers.mean}, {"p50", numbers.p50}, {"p99", numbers.p99}}},
                  {"tokens_per_s", numbers.tokens_per_s},
                  {"bound_ms", Median(report.bound_ms)},
                  {"ttft_to_bound", numbers.bound_ratio},
                  {"encode_batches", numbers.encode_batches},
                  {"peak_embedding_bytes", numbers.peak_embedding_bytes},
                  {"peak_rss_bytes", numbers.peak_rss_bytes}};
    if (report.slo_ms > 0) entry["slo_attainment"] = numbers.slo;
    for (const Pass& pass : series.passes) {
      entry["passes"].push_back({{"ttft_ms", pass.ttft_ms},
                                 {"tokens_per_s", pass.tokens_per_s},
                                 {"front_end_ns", pass.front_end_ns},
                                 {"actions", ActionsJson(pass, report.shape)}});
    }
    runs.push_back(std::move(entry));
    if (&series == &report.series.front()) continue;
    ratios.push_back({{"scheme", SchemeText(report.series.front().engine_case.scheme)},
                      {"to", SchemeText(series.engine_case.scheme)},
                      {"to_encode_batch_tokens", series.engine_case.EncodeBatchText()},
                      {"ttft", TtftRatio(report.series.front(), series)},
                      {"tokens_per_s", ThroughputRatio(report.series.front(), series)}});
  }
  json out = {{"workload",
               {{"requests", workload.requests},
                {"images", workload.images},
                {"image_width", workload.image_width},
                {"image_height", workload.image_height},
                {"prompt_tokens", report.shape.prompt_tokens},
                {"trailing_text_tokens", workload.trailing_text_tokens},
                {"item_begin", report.shape.item_begin},
                {"item_tokens", report.shape.item_tokens},
                {"arrival_ns", report.arrival_ns},
                {"media_threads", report.media_threads},
                {"seed", workload.seed}}},
              {"repeats", report.bound_ms.size()},
              {"solo",
               {{"encode_ms", SoloEncodeMs(report)},
                {"prefill_ms", SoloPrefillMs(report)},
                {"bound_ms", Median(report.bound_ms)}}},
              {"runs", std::move(runs)},
              {"ratios", std::move(ratios)}};
  if (report.slo_ms > 0) out["slo_ms"] = report.slo_ms;
  return out;
}

}  // namespace rserve::tool
