// rserve sim check: tables of what must hold, and an exit status.

#include <cmath>
#include <cstdio>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/rserve/files.h"
#include "tools/rserve/progress.h"
#include "tools/rserve/sim_flags.h"
#include "tools/rserve/text.h"

namespace rserve::tool {
namespace {

constexpr CommandText kText = {
    "sim check",
    "Computes what must come out of the simulator and prints it beside its limits; the exit status "
    "is\n0 only if all of it holds. Values are shares: -0.25 is 25 % less.\n",
    "  rserve sim check\n"
    "  rserve sim check --adaptive --scenarios --csv check.csv\n"};

std::string Limit(double value) { return std::fabs(value) >= 1e9 ? "-" : FormatFixed(value, 3); }

struct Report {
  int64_t bands = 0;
  int64_t missed = 0;
  std::string rows = "table,what,calibration,value,low,high,holds,note\n";

  void Add(const char* title, const std::vector<sim::Band>& bands) {
    TextTable table({title, "cal.", "value", "low", "high", "", "paper / note"});
    for (const sim::Band& band : bands) {
      ++this->bands;
      missed += band.holds() ? 0 : 1;
      table.Row({band.what, band.calibration, FormatFixed(band.value, 3), Limit(band.low),
                 Limit(band.high), band.holds() ? "ok" : "MISSED", band.paper});
      absl::StrAppendFormat(&rows, "\"%s\",\"%s\",%s,%.6f,%.6g,%.6g,%d,\"%s\"\n", title, band.what,
                            band.calibration, band.value, band.low, band.high, band.holds(),
                            band.paper);
    }
    std::printf("%s\n", table.ToString().c_str());
  }
};

void AddCurve(const std::vector<sim::StretchPoint>& points, std::string* rows) {
  TextTable table(
      {"layout", "workload", "load", "stretch", "mean s", "over rserve", "p99 s", "over rserve"});
  for (const sim::StretchPoint& p : points) {
    table.Row({p.layout, p.workload, FormatFixed(p.load, 1), absl::StrCat(p.stretch),
               FormatFixed(p.mean_s, 3), FormatPercent(p.mean_s / p.rserve_mean_s - 1),
               FormatFixed(p.p99_s, 3), FormatPercent(p.p99_s / p.rserve_p99_s - 1)});
    for (const bool tail : {false, true}) {
      const double value = tail ? p.p99_s : p.mean_s;
      absl::StrAppendFormat(rows,
                            "\"curve\",\"%s %s, load %.1f, stretch %d: %s s\",b,%.6f,,,,\"\"\n",
                            p.workload, p.layout, p.load, p.stretch, tail ? "p99" : "mean", value);
    }
  }
  std::printf("%s\n", table.ToString().c_str());
}

}  // namespace

int SimCheckCommand(Args args) {
  bool paper = true, adaptive = false, scenarios = false, curve = false;
  std::string csv;
  OptionTable table;
  table.Switch("paper", &paper, "the paper's bands, under both calibrations");
  table.Switch("adaptive", &adaptive,
               "the adaptive scheme against rserve and against a co-located pipeline");
  table.Switch("scenarios", &scenarios,
               "the adaptive scheme against the best fixed C, B and order, in 20 scenarios");
  table.Switch("curve", &curve, "mean against p99 by order_stretch");
  table.String("csv", "FILE", &csv, "the tables");
  if (std::optional<int> over = ParseOrHelp(kText, &table, args)) return *over;

  if (absl::Status s = CheckOutputs({csv}, {}); !s.ok()) return FailUsage(s);
  Report report;
  Progress progress("simulating");
  const auto tick = [&](int64_t done, int64_t total) { progress.Update(done, total); };
  if (paper) report.Add("the paper", sim::PaperBands(tick));
  if (adaptive) report.Add("adaptive", sim::AdaptiveBands(tick));
  if (scenarios) report.Add("scenarios", sim::ScenarioBands(tick));
  if (curve) AddCurve(sim::StretchCurve(tick), &report.rows);
  progress.Finish();
  if (!csv.empty()) {
    if (absl::Status s = WriteFile(csv, report.rows); !s.ok()) return Fail(s);
  }
  if (report.bands > 0) {
    std::printf("%d of %d hold; simulated\n", static_cast<int>(report.bands - report.missed),
                static_cast<int>(report.bands));
  }
  return report.missed == 0 ? kExitOk : kExitFailure;
}

}  // namespace rserve::tool
