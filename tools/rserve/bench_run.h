// One measured pass over a request set, and what several of them give.

#ifndef RSERVE_TOOLS_RSERVE_BENCH_RUN_H_
#define RSERVE_TOOLS_RSERVE_BENCH_RUN_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tools/rserve/bound.h"
#include "tools/rserve/driver.h"
#include "tools/rserve/engine_options.h"
#include "tools/rserve/workload.h"

namespace rserve::tool {

using TraceSink = std::function<void(const TraceSpan&)>;

// Makes a fresh engine for a case, to which the bench's request set can be submitted. `trace` may
// be empty.
using OpenTarget = std::function<absl::StatusOr<std::unique_ptr<Target>>(
    const EngineCase& engine_case, TraceSink trace)>;

// What a bench measures on.
struct BenchSet {
  OpenTarget open;
  // For the solo run, which holds all embeddings of its request at once: without the limit that the
  // measured passes may have on them.
  OpenTarget open_solo;
  PromptShape shape;
  std::vector<TimeNs> arrival_ns;
  int64_t warmup = 1;  // requests before the measured ones, each alone
  bool spans = false;  // keep what ran when (Pass::spans)
};

struct Pass {
  std::string topology;         // as the engine placed its workers
  std::vector<double> ttft_ms;  // in submit order
  double seconds = 0;           // first submit to last first token
  double tokens_per_s = 0;      // prompt tokens
  int64_t encode_batches = 0;
  int64_t peak_embedding_bytes = 0;
  int64_t peak_rss_bytes = 0;    // of the process, weights included; 0: not known
  std::vector<TraceSpan> spans;  // of the measured requests, if asked for
  TimeNs front_end_ns = 0;       // from the first submit to its first action; with `spans`
};

// Runs the set once. The first request that fails ends the pass with its status.
absl::StatusOr<Pass> RunPass(const BenchSet& set, const EngineCase& engine_case);

// Runs one request of the set alone under the whole-request gate, each picture a batch of its own.
absl::StatusOr<SoloTimes> RunSolo(const BenchSet& set, const EngineCase& engine_case);

double Mean(absl::Span<const double> values);
// Nearest-rank percentile, `fraction` in (0, 1]; 0 for no values.
double Percentile(std::vector<double> values, double fraction);
// The mean of the two middle values where there are two.
double Median(std::vector<double> values);

}  // namespace rserve::tool

#endif  // RSERVE_TOOLS_RSERVE_BENCH_RUN_H_
