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
};

// The table, the solo times with the bound, and the first series' ratios to the others.
std::string RenderReport(const BenchReport& report);

// {"workload": {...}, "solo": {...}, "runs": [{"scheme", "topology", "ttft_ms": {"mean", "p50",
// "p99"}, "tokens_per_s", "bound_ms", "peak_embedding_bytes", ...}], "ratios": [...]}
nlohmann::json ReportJson(const BenchReport& report);

}  // namespace rserve::tool

#endif  // RSERVE_TOOLS_RSERVE_BENCH_REPORT_H_
