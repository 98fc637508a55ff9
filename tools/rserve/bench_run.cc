#include "tools/rserve/bench_run.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tools/rserve/process_memory.h"
#include "tools/rserve/spans.h"

namespace rserve::tool {
namespace {

absl::Status FirstFailure(const std::vector<Outcome>& outcomes, const EngineCase& engine_case) {
  for (size_t i = 0; i < outcomes.size(); ++i) {
    if (outcomes[i].status.ok()) continue;
    return absl::Status(
        outcomes[i].status.code(),
        absl::StrCat(engine_case.ToString(), ", request ", i, ": ", outcomes[i].status.message()));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Target>> OpenWarm(const OpenTarget& open, int64_t warmup,
                                                 const EngineCase& engine_case, TraceSink trace) {
  absl::StatusOr<std::unique_ptr<Target>> target = open(engine_case, std::move(trace));
  if (!target.ok()) return target;
  for (int64_t i = 0; i < warmup; ++i) {
    const absl::Status status = FirstFailure(Drive(**target, {0}, nullptr), engine_case);
    if (!status.ok()) return status;
  }
  return target;
}

}  // namespace

absl::StatusOr<Pass> RunPass(const BenchSet& set, const EngineCase& engine_case) {
  ResetPeakRss();
  SpanRecorder recorder;
  absl::StatusOr<std::unique_ptr<Target>> target =
      OpenWarm(set.open, set.warmup, engine_case, set.spans ? recorder.Sink() : TraceSink());
  if (!target.ok()) return target.status();
  const int64_t warm_batches = (*target)->stats().encode_batches;
  const std::vector<Outcome> outcomes = Drive(**target, set.arrival_ns, nullptr);
  if (absl::Status status = FirstFailure(outcomes, engine_case); !status.ok()) return status;
  Pass pass;
  pass.topology = (*target)->topology();
  TimeNs begin_ns = kNever, end_ns = 0;
  for (const Outcome& outcome : outcomes) {
    pass.ttft_ms.push_back(static_cast<double>(outcome.ttft_ns()) / 1e6);
    begin_ns = std::min(begin_ns, outcome.times.submitted_ns);
    end_ns = std::max(end_ns, outcome.times.first_token_ns);
  }
  pass.seconds = static_cast<double>(end_ns - begin_ns) / 1e9;
  const auto tokens =
      static_cast<double>(set.shape.prompt_tokens) * static_cast<double>(outcomes.size());
  pass.tokens_per_s = pass.seconds > 0 ? tokens / pass.seconds : 0;
  const OrchestratorStats stats = (*target)->stats();
  pass.encode_batches = stats.encode_batches - warm_batches;
  pass.peak_embedding_bytes = stats.peak_embedding_bytes;
  pass.peak_rss_bytes = PeakRssBytes();
  if (set.spans) {
    target->reset();  // an engine hands its last spans over after its last event
    for (TraceSpan& span : recorder.Take()) {
      if (span.begin_ns >= begin_ns) pass.spans.push_back(std::move(span));
    }
    TimeNs first_ns = kNever;
    for (const TraceSpan& span : pass.spans) first_ns = std::min(first_ns, span.begin_ns);
    if (first_ns != kNever) pass.front_end_ns = first_ns - begin_ns;
  }
  return pass;
}

absl::StatusOr<SoloTimes> RunSolo(const BenchSet& set, const EngineCase& engine_case) {
  EngineCase solo = engine_case;
  solo.scheme = Scheme::kEpd;
  solo.topology.encoders = std::max(solo.topology.encoders, 1);
  solo.encode_batch = 1;
  SpanRecorder recorder;
  absl::StatusOr<std::unique_ptr<Target>> target =
      OpenWarm(set.open_solo, set.warmup, solo, recorder.Sink());
  if (!target.ok()) return target.status();
  const std::vector<Outcome> outcomes = Drive(**target, {0}, nullptr);
  if (absl::Status status = FirstFailure(outcomes, solo); !status.ok()) return status;
  target->reset();  // an engine hands its last spans over after its last event
  return SoloTimesFromSpans(recorder.Take(), outcomes[0].id, set.shape.item_begin,
                            set.shape.prompt_tokens);
}

double Mean(absl::Span<const double> values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return values.empty() ? 0 : sum / static_cast<double>(values.size());
}

double Percentile(std::vector<double> values, double fraction) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const auto rank = static_cast<int64_t>(std::ceil(fraction * static_cast<double>(values.size())));
  const auto last = static_cast<int64_t>(values.size()) - 1;
  return values[static_cast<size_t>(std::clamp<int64_t>(rank - 1, 0, last))];
}

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

}  // namespace rserve::tool
