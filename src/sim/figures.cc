#include "src/sim/figures.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "src/sim/figure_parts.h"

namespace rserve::sim {
namespace {

constexpr struct {
  const char* number;
  Figure (*make)(FigureRuns&);
  int64_t points;  // about, for the progress bar
} kFigures[] = {
    {"2", Figure2, 20},    {"5", Figure5, 4},     {"7", Figure7, 4},     {"10", Figure10, 4},
    {"12", Figure12, 220}, {"13", Figure13, 20},  {"14", Figure14, 220}, {"15", Figure15, 2},
    {"16", Figure16, 90},  {"17", Figure17, 60},  {"18", Figure18, 130}, {"19", Figure19, 200},
    {"20", Figure20, 260}, {"21", Figure21, 120},
};

int32_t SchemeColour(const std::string& scheme) {
  const std::vector<std::string> order = {"vllm",         "colocated", "epd",
                                          "rserve_intra", "rserve",    "adaptive"};
  return static_cast<int32_t>(std::find(order.begin(), order.end(), scheme) - order.begin());
}

std::string KnownAs(const std::string& scheme) {
  if (scheme == "colocated") return " (gLLM)";
  if (scheme == "epd") return " (gLLM-epd)";
  if (scheme == "rserve") return " (RServe)";
  return "";
}

}  // namespace

FigureCase MakeCase(const std::string& scheme, const std::string& layout, int32_t dash) {
  return {scheme,
          layout,
          absl::StrCat(scheme, " ", layout, KnownAs(scheme)),
          {SchemeColour(scheme), dash}};
}

void FigureRuns::Tick() {
  ++done_;
  if (options_.progress) options_.progress(std::min(done_, total_), total_);
}

const Point& FigureRuns::PointAt(const FigureCase& one, const Where& where, double rate) {
  const auto key =
      std::make_tuple(one.scheme, one.layout, where.calibration, static_cast<int32_t>(where.kind),
                      where.model, where.hardware, where.slo_s, rate);
  if (auto it = points_.find(key); it != points_.end()) return it->second;
  SimConfig config =
      MakeConfig(one.scheme, one.layout, where.calibration, where.model, where.hardware);
  WorkloadSpec spec;
  spec.kind = where.kind;
  spec.rate = rate;
  spec.requests = options_.requests;
  if (one.scheme == "adaptive") config.layout.layers = BalancedLayers(config, spec);
  config.slo_s = where.slo_s;
  return points_[key] = Run(config, spec);
}

double FigureRuns::RserveCapacity(const std::string& layout, const Where& where) {
  const auto key = std::make_tuple(layout, where.calibration, static_cast<int32_t>(where.kind),
                                   where.model, where.hardware);
  if (auto it = capacities_.find(key); it != capacities_.end()) return it->second;
  WorkloadSpec spec;
  spec.kind = where.kind;
  spec.requests = options_.requests;
  const SimConfig config =
      MakeConfig("rserve", layout, where.calibration, where.model, where.hardware);
  return capacities_[key] = *Capacity(config, spec, options_.seeds);
}

Point FigureRuns::Run(const SimConfig& config, const WorkloadSpec& spec) {
  Tick();
  return *Measure(config, spec, options_.seeds);
}

SimResult FigureRuns::Trace(const SimConfig& config, const std::vector<SimRequest>& requests) {
  Tick();
  SimOptions options;
  options.spans = true;
  auto source = MakeSource(requests);
  return *Simulate(config, *source, options);
}

double MeanTtft(const Summary& summary) { return summary.ttft_mean_s; }
double P99Ttft(const Summary& summary) { return summary.ttft_p99_s; }

Plot CurvePlot(FigureRuns& runs, const std::vector<FigureCase>& cases,
               const FigureRuns::Where& where, const std::vector<double>& rates, const Pick& pick) {
  Plot plot;
  plot.x_label = "requests a second";
  for (const FigureCase& one : cases) {
    PlotSeries series{one.name, one.style, {}, {}};
    for (double rate : rates) {
      series.x.push_back(rate);
      series.y.push_back(pick(runs.At(one, where, rate)));
    }
    plot.series.push_back(std::move(series));
  }
  return plot;
}

namespace {

double Bound(const Point& point) {
  return std::max(point.bounds.critical_path_s, point.bounds.shortest_s);
}

void AddBounds(FigureRuns& runs, const std::vector<FigureCase>& cases,
               const FigureRuns::Where& where, const std::vector<double>& rates, Plot* plot) {
  constexpr int32_t kBlack = 7, kDotted = 2;
  PlotSeries least{"least bound of these layouts", {kBlack, kDotted}, rates, {}};
  least.y.assign(rates.size(), std::numeric_limits<double>::infinity());
  for (const FigureCase& one : cases) {
    PlotSeries series{absl::StrCat("bound of ", one.name), one.style, rates, {}, false};
    for (size_t i = 0; i < rates.size(); ++i) {
      series.y.push_back(Bound(runs.PointAt(one, where, rates[i])));
      least.y[i] = std::min(least.y[i], series.y[i]);
    }
    plot->series.push_back(std::move(series));
  }
  plot->series.push_back(std::move(least));
  plot->caption += " Black: no policy on any of these layouts has a smaller mean.";
}

}  // namespace

void AddTtftPlots(FigureRuns& runs, const std::vector<FigureCase>& cases,
                  const FigureRuns::Where& where, const std::vector<double>& rates,
                  const std::string& id, const std::string& title, const std::string& caption,
                  Figure* figure) {
  for (const bool tail : {false, true}) {
    Plot plot = CurvePlot(runs, cases, where, rates, tail ? P99Ttft : MeanTtft);
    plot.id = absl::StrCat(id, tail ? "_p99" : "_mean");
    plot.title = absl::StrCat(title, tail ? ": TTFT, 99th percentile" : ": TTFT, mean");
    plot.y_label = "seconds";
    plot.log_y = true;
    plot.caption = caption;
    if (!tail) AddBounds(runs, cases, where, rates, &plot);
    figure->plots.push_back(std::move(plot));
  }
}

Comparison Compare(std::string what, std::string paper, double paper_value,
                   const std::function<double(const std::string& calibration)>& value,
                   std::string note, bool per_cent) {
  Comparison out;
  out.what = std::move(what);
  out.paper = std::move(paper);
  out.paper_value = paper_value;
  out.a = value("a");
  out.b = value("b");
  out.per_cent = per_cent;
  out.note = std::move(note);
  return out;
}

void CompareTtft(
    std::string what, std::string paper, double paper_value,
    const std::function<double(const std::string& calibration, const Pick& pick)>& value,
    std::string note, Figure* figure, bool per_cent) {
  const std::string tail = what + ", 99th percentile";
  figure->comparisons.push_back(Compare(
      what + ", mean", std::move(paper), paper_value,
      [&](const std::string& calibration) { return value(calibration, MeanTtft); }, std::move(note),
      per_cent));
  figure->comparisons.push_back(Compare(
      tail, "", std::numeric_limits<double>::quiet_NaN(),
      [&](const std::string& calibration) { return value(calibration, P99Ttft); }, "", per_cent));
}

std::vector<std::string> FigureNumbers() {
  std::vector<std::string> numbers;
  for (const auto& figure : kFigures) numbers.push_back(figure.number);
  return numbers;
}

absl::StatusOr<std::vector<Figure>> MakeFigures(const FigureOptions& options) {
  const std::vector<std::string> known = FigureNumbers();
  for (const std::string& number : options.only) {
    if (std::find(known.begin(), known.end(), number) != known.end()) continue;
    return absl::InvalidArgumentError(absl::StrCat("there is no figure \"", number,
                                                   "\"; there are ", absl::StrJoin(known, ", ")));
  }
  const auto wanted = [&](const char* number) {
    return options.only.empty() ||
           std::find(options.only.begin(), options.only.end(), number) != options.only.end();
  };
  int64_t total = 0;
  for (const auto& figure : kFigures) total += wanted(figure.number) ? figure.points : 0;
  FigureRuns runs(options, total);
  std::vector<Figure> figures;
  for (const auto& figure : kFigures) {
    if (wanted(figure.number)) figures.push_back(figure.make(runs));
  }
  return figures;
}

}  // namespace rserve::sim
