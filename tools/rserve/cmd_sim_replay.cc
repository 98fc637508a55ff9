// rserve sim replay: recorded arrivals through several systems.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/rserve/files.h"
#include "tools/rserve/progress.h"
#include "tools/rserve/sim_flags.h"
#include "tools/rserve/text.h"

namespace rserve::tool {
namespace {

constexpr CommandText kText = {
    "sim replay",
    "Replays recorded arrivals, JSONL as `rserve sim workload` writes it, through several "
    "systems:\n"
    "  {\"arrival_ns\": 0, \"prompt_tokens\": 8000, \"items\": [{\"at\": 12, \"tokens\": 1000}]}\n"
    "A case is SCHEME or SCHEME@LAYOUT.\n",
    "  rserve sim replay day.jsonl --cases rserve,colocated@PP5,adaptive@PP5 --slo 5\n"
    "  rserve sim replay day.jsonl --speed 2 --csv ttft.csv    # twice as many a second\n"};

}  // namespace

int SimReplayCommand(Args args) {
  SystemFlags system;
  WorkloadFlags workload;
  std::vector<std::string> cases = {"rserve", "epd", "colocated@PP5", "adaptive", "adaptive@PP5"};
  double speed = 1;
  std::string csv;
  OptionTable table;
  table.Positional("FILE", &workload.file, "the recorded requests");
  table.Section("Replay");
  table.List("cases", "CASE,...", &cases, "schemes, each with a layout if not --layout");
  table.Real("speed", "X", 1e-6, 1e6, &speed, "how much faster than recorded they come");
  AddSystemFlags(&table, &system, {"scheme"});
  table.Section("Output");
  table.String("csv", "FILE", &csv, "case, arrival and TTFT of every request");
  if (std::optional<int> over = ParseOrHelp(kText, &table, args)) return *over;

  const absl::Status outputs = CheckOutputs({csv}, {workload.file, system.config_file});
  if (!outputs.ok()) return FailUsage(outputs);
  auto traffic = MakeTraffic(workload);
  if (!traffic.ok()) return FailUsage(traffic.status());
  for (sim::SimRequest& request : *traffic->recorded) {
    request.arrival_ns =
        std::llround(std::min(static_cast<double>(request.arrival_ns) / speed, 9e18));
  }
  std::vector<std::string> headings = {"case", "TTFT mean s", "p50 s", "p99 s"};
  for (const std::string& heading : BoundHeadings()) headings.push_back(heading);
  for (const char* heading : {"tokens/s", "at most", "SLO", "embeddings", "failed"}) {
    headings.push_back(heading);
  }
  TextTable out(std::move(headings));
  std::string rows = "case,arrival_ns,ttft_ns\n";
  Progress progress("replaying");
  int64_t done = 0;
  for (const std::string& one : cases) {
    const SimCase sim_case = ParseCase(one, system.layout);
    auto config = MakeSystem(system, sim_case.scheme, sim_case.layout, *traffic);
    if (!config.ok()) return FailUsage(config.status());
    auto source = sim::MakeSource(*traffic->recorded);
    auto result = sim::Simulate(*config, *source);
    if (!result.ok()) return FailUsage(result.status());
    const sim::Summary s = sim::Summarise(*result, config->slo_s);
    const sim::Bounds bounds = sim::ComputeBounds(*config, *traffic->recorded);
    const std::string name = sim_case.Name();
    std::vector<std::string> row = {name, TtftCell(s.ttft_mean_s, s), TtftCell(s.ttft_p50_s, s),
                                    TtftCell(s.ttft_p99_s, s)};
    for (const std::string& cell : BoundCells(bounds)) row.push_back(cell);
    for (const std::string& cell :
         {FormatFixed(s.tokens_per_s, 0), FormatFixed(bounds.tokens_per_s, 0),
          config->slo_s > 0 ? FormatPercent(s.slo_attainment) : std::string("-"),
          FormatBytes(s.peak_embedding_bytes), absl::StrCat(s.failed)}) {
      row.push_back(cell);
    }
    out.Row(std::move(row));
    for (const sim::RequestOutcome& r : result->requests) {
      absl::StrAppend(&rows, name, ",", r.arrival_ns, ",", r.ttft_ns, "\n");
    }
    progress.Update(++done, static_cast<int64_t>(cases.size()));
  }
  progress.Finish();
  std::printf(
      "%s\n%d requests, simulated; bounds are of the mean TTFT: no policy on that layout is below "
      "alone and "
      "shortest\n",
      out.ToString().c_str(), static_cast<int>(traffic->recorded->size()));
  if (csv.empty()) return kExitOk;
  const absl::Status status = WriteFile(csv, rows);
  return status.ok() ? kExitOk : Fail(status);
}

}  // namespace rserve::tool
