// Plots as data, and what is drawn of them: SVG text without scripts, and CSV.

#ifndef RSERVE_SRC_SIM_PLOT_H_
#define RSERVE_SRC_SIM_PLOT_H_

#include <cstdint>
#include <string>
#include <vector>

namespace rserve::sim {

// Colour and dash of a series, the same wherever the same thing is drawn.
struct PlotStyle {
  int32_t colour = 0;  // index into a palette that colour-blind readers can tell apart
  int32_t dash = 0;    // 0: solid, 1: dashed, 2: dotted
};

struct PlotSeries {
  std::string name;
  PlotStyle style;
  std::vector<double> x;  // kLines
  std::vector<double> y;  // kLines: by x; kBars: by category; not finite: left out
  bool drawn = true;      // false: in the CSV only
};

// One bar of a timeline.
struct PlotSpan {
  int32_t lane = 0;
  double begin = 0;
  double end = 0;
  int32_t colour = 0;
  bool dark = false;  // a second shade
  std::string label;  // inside, where it fits
};

struct Plot {
  enum class Kind : int32_t { kLines = 0, kBars = 1, kTimeline = 2 };
  Kind kind = Kind::kLines;
  std::string id;  // file name: letters, digits, '_'
  std::string title;
  std::string x_label;  // with its unit
  std::string y_label;
  bool log_y = false;  // kLines
  double x_max = 0;    // 0: as the data
  double y_max = 0;
  std::vector<PlotSeries> series;  // kBars: stacked, the first at the bottom
  // kBars: a label a bar, '\n' between its lines; kLines: in the place of numbers, one an x of 0,
  // 1, 2, ...
  std::vector<std::string> categories;
  std::vector<std::string> notes;  // kBars: above each bar
  std::vector<std::string> lanes;  // kTimeline
  std::vector<PlotSpan> spans;
  std::string caption;  // one or two sentences: what is shown, under which conditions
};

// An <svg> element with a size of its own and no references to anything outside.
std::string ToSvg(const Plot& plot);
// A header and a line a point: series, x, y; bar: category, series, y; timeline: lane, begin, end,
// label.
std::string ToCsv(const Plot& plot);

// For text between tags and in attributes.
std::string EscapeXml(const std::string& text);

}  // namespace rserve::sim

#endif  // RSERVE_SRC_SIM_PLOT_H_
