// The figures of the paper, simulated, and what the paper says beside what comes out.
//
// Beside every system of four devices and of four and an encoder stands a co-located pipeline on
// as many devices as those have together, and beside every mean the 99th percentile.

#ifndef RSERVE_SRC_SIM_FIGURES_H_
#define RSERVE_SRC_SIM_FIGURES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "src/sim/experiment.h"
#include "src/sim/plot.h"

namespace rserve::sim {

// One number of the paper and what the simulator gives for it, under both calibrations.
struct Comparison {
  std::string what;
  std::string paper;       // as the paper gives it
  double paper_value = 0;  // the same as a number; not finite: it gives none
  double a = 0, b = 0;     // simulated; shares and factors as `per_cent` says
  bool per_cent = true;    // shares of 1 that are shown in per cent
  bool share = false;      // no change but a part of a whole: shown without a sign
  std::string note;        // where it can't be had: why, and the bound
};

struct Figure {
  std::string number;  // "12"
  std::string title;
  std::vector<Plot> plots;
  std::vector<Comparison> comparisons;
};

struct FigureOptions {
  std::string calibration = "b";  // of the plots
  int64_t requests = 128;         // of each point
  std::vector<uint64_t> seeds = {1, 2, 3, 4};
  std::vector<std::string> only;  // numbers; empty: all
  ProgressFn progress;
};

// The numbers of the figures that there are.
std::vector<std::string> FigureNumbers();
// In their order. INVALID_ARGUMENT names an unknown number.
absl::StatusOr<std::vector<Figure>> MakeFigures(const FigureOptions& options);

// One HTML page that needs nothing else: every plot, its caption, and the table of comparisons.
std::string ReportHtml(const std::vector<Figure>& figures, const FigureOptions& options);
// figure,what,paper,paper_value,simulated_a,simulated_b,note
std::string ComparisonsCsv(const std::vector<Figure>& figures);

}  // namespace rserve::sim

#endif  // RSERVE_SRC_SIM_FIGURES_H_
