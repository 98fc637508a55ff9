// What the files that make figures share. Not for others.

#ifndef RSERVE_SRC_SIM_FIGURE_PARTS_H_
#define RSERVE_SRC_SIM_FIGURE_PARTS_H_

#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "src/sim/figures.h"

namespace rserve::sim {

// A system that is drawn: scheme, layout and what it is called.
struct FigureCase {
  std::string scheme;
  std::string layout;
  std::string name;
  PlotStyle style;
};

// Colours by scheme, dashes by layout.
FigureCase MakeCase(const std::string& scheme, const std::string& layout, int32_t dash = 0);

// Runs what the figures need, each combination once.
class FigureRuns {
 public:
  // `total`: of the progress, in points.
  FigureRuns(const FigureOptions& options, int64_t total) : options_(options), total_(total) {}

  struct Where {
    std::string calibration;
    WorkloadKind kind = WorkloadKind::kMmmu1k;
    std::string model = "72b";
    std::string hardware = "h100";
    double slo_s = 0;
  };
  const Point& PointAt(const FigureCase& one, const Where& where, double rate);
  const Summary& At(const FigureCase& one, const Where& where, double rate) {
    return PointAt(one, where, rate).summary;
  }
  // Of `rserve` on the layout, in requests a second.
  double RserveCapacity(const std::string& layout, const Where& where);

  const FigureOptions& options() const { return options_; }
  // Of a configuration that is no FigureCase; counts as one point.
  Point Run(const SimConfig& config, const WorkloadSpec& spec);
  SimResult Trace(const SimConfig& config, const std::vector<SimRequest>& requests);

 private:
  void Tick();

  const FigureOptions& options_;
  const int64_t total_;
  int64_t done_ = 0;
  std::map<std::tuple<std::string, std::string, std::string, int32_t, std::string, std::string,
                      double, double>,
           Point>
      points_;
  std::map<std::tuple<std::string, std::string, int32_t, std::string, std::string>, double>
      capacities_;
};

// One line a case over the rates.
using Pick = std::function<double(const Summary&)>;
Plot CurvePlot(FigureRuns& runs, const std::vector<FigureCase>& cases,
               const FigureRuns::Where& where, const std::vector<double>& rates, const Pick& pick);
double MeanTtft(const Summary& summary);
double P99Ttft(const Summary& summary);

// Mean and p99 of the TTFT, both logarithmic, with `id` and `title` as beginnings. With the mean
// the least bound of all cases is drawn; those of each are in the CSV.
void AddTtftPlots(FigureRuns& runs, const std::vector<FigureCase>& cases,
                  const FigureRuns::Where& where, const std::vector<double>& rates,
                  const std::string& id, const std::string& title, const std::string& caption,
                  Figure* figure);

// A comparison whose value is computed for calibrations "a" and "b".
Comparison Compare(std::string what, std::string paper, double paper_value,
                   const std::function<double(const std::string& calibration)>& value,
                   std::string note = "", bool per_cent = true);

// Two comparisons of TTFT: of the mean, and beside it of the 99th percentile.
void CompareTtft(
    std::string what, std::string paper, double paper_value,
    const std::function<double(const std::string& calibration, const Pick& pick)>& value,
    std::string note, Figure* figure, bool per_cent = true);

inline double Change(double from, double to) { return to / from - 1; }

// In figures_single.cc: 2, 5, 7, 10, 15. In figures_load.cc: 12 to 14, 17 to 21. In
// figures_batch.cc: 16.
Figure Figure2(FigureRuns& runs);
Figure Figure5(FigureRuns& runs);
Figure Figure7(FigureRuns& runs);
Figure Figure10(FigureRuns& runs);
Figure Figure12(FigureRuns& runs);
Figure Figure13(FigureRuns& runs);
Figure Figure14(FigureRuns& runs);
Figure Figure15(FigureRuns& runs);
Figure Figure16(FigureRuns& runs);
Figure Figure17(FigureRuns& runs);
Figure Figure18(FigureRuns& runs);
Figure Figure19(FigureRuns& runs);
Figure Figure20(FigureRuns& runs);
Figure Figure21(FigureRuns& runs);

}  // namespace rserve::sim

#endif  // RSERVE_SRC_SIM_FIGURE_PARTS_H_
