// rserve sim figures.

#include <sys/stat.h>

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "src/sim/figures.h"
#include "tools/rserve/files.h"
#include "tools/rserve/progress.h"
#include "tools/rserve/sim_flags.h"
#include "tools/rserve/text.h"

namespace rserve::tool {
namespace {

constexpr CommandText kText = {
    "sim figures",
    "Writes the paper's figures as the simulator gives them: a CSV and an SVG a plot, the table "
    "of\n"
    "what the paper says beside what came out, and report.html, which holds all of it.\n",
    "  rserve sim figures --out figures\n"
    "  rserve sim figures --out figures --only 12,13 --calibration a\n"};

std::string Shown(double value, const sim::Comparison& c) {
  if (!std::isfinite(value)) return "";
  if (c.share) return absl::StrFormat("%.1f %%", 100 * value);
  if (c.per_cent) return absl::StrFormat("%+.1f %%", 100 * value);
  return value >= 100 ? absl::StrFormat("%.0f", value) : absl::StrFormat("%.2f", value);
}

absl::Status WriteAll(const std::vector<sim::Figure>& figures, const sim::FigureOptions& options,
                      const std::string& folder) {
  if (mkdir(folder.c_str(), 0777) != 0 && errno != EEXIST) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot make the folder ", folder, ": ", std::strerror(errno)));
  }
  const auto write = [&](const std::string& name, const std::string& text) {
    return WriteFile(absl::StrCat(folder, "/", name), text);
  };
  for (const sim::Figure& figure : figures) {
    for (const sim::Plot& plot : figure.plots) {
      if (absl::Status s = write(plot.id + ".svg", ToSvg(plot)); !s.ok()) return s;
      if (absl::Status s = write(plot.id + ".csv", ToCsv(plot)); !s.ok()) return s;
    }
  }
  if (absl::Status s = write("comparison.csv", ComparisonsCsv(figures)); !s.ok()) return s;
  return write("report.html", ReportHtml(figures, options));
}

}  // namespace

int SimFiguresCommand(Args args) {
  sim::FigureOptions options;
  std::string out = "figures";
  OptionTable table;
  table.String("out", "FOLDER", &out, "where to; made if it is missing");
  table.List("only", "N,...", &options.only,
             absl::StrCat("some of ", absl::StrJoin(sim::FigureNumbers(), ", ")));
  table.String("calibration", "NAME", &options.calibration, "of the plots: a or b");
  table.Int("requests", "N", 2, 100'000, &options.requests, "of each point");
  if (std::optional<int> over = ParseOrHelp(kText, &table, args)) return *over;
  if (auto known = sim::FindCalibration(options.calibration); !known.ok()) {
    return FailUsage(known.status());
  }
  Progress progress("simulating");
  options.progress = [&](int64_t done, int64_t total) { progress.Update(done, total); };
  const auto figures = sim::MakeFigures(options);
  progress.Finish();
  if (!figures.ok()) return FailUsage(figures.status());
  TextTable rows({"figure", "what", "paper", "simulated a", "simulated b"});
  for (const sim::Figure& figure : *figures) {
    for (const sim::Comparison& c : figure.comparisons) {
      rows.Row(
          {figure.number, c.what, c.paper.empty() ? "-" : c.paper, Shown(c.a, c), Shown(c.b, c)});
    }
  }
  std::printf("%s\n", rows.ToString().c_str());
  if (absl::Status s = WriteAll(*figures, options, out); !s.ok()) return Fail(s);
  std::printf("simulated; %s/report.html shows the plots\n", out.c_str());
  return kExitOk;
}

}  // namespace rserve::tool
