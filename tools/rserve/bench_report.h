// What a bench found, as text and as JSON.

#ifndef RSERVE_TOOLS_RSERVE_BENCH_REPORT_H_
#define RSERVE_TOOLS_RSERVE_BENCH_REPORT_H_

#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "tools/rserve/bench_run.h"

namespace rserve::tool {

struct BenchSeries {
  EngineCase engine_case;
  std::vector<Pass> passes;  // one a repeat
};

struct BenchReport {
  Workload workload;
  PromptShape shape;
  double slo_ms = 0;  // 0: not asked for
  std::vector<SoloTimes> solo;
  std::vector<double> bound_ms;     // one a repeat
  std::vector<BenchSeries> series;  // each with at least one pass
  std::vector<TimeNs> arrival_ns;   // of a pass's requests
  int64_t media_threads = 1;
};

// The table, the solo times with the bound, and the first series' ratios to the others.
std::string RenderReport(const BenchReport& report);

// {"workload": {...}, "solo": {...}, "runs": [{"scheme", "topology", "ttft_ms": {"mean", "p50",
// "p99"}, "tokens_per_s", "bound_ms", "peak_embedding_bytes", "passes": [...], ...}], "ratios":
// [...]}. A pass has its actions where they were recorded: what `rserve sim fit` reads.
nlohmann::json ReportJson(const BenchReport& report);

}  // namespace rserve::tool

#endif  // RSERVE_TOOLS_RSERVE_BENCH_REPORT_H_
