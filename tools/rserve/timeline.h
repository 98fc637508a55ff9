// What ran when on which worker, drawn with characters.
//
//              0         50        100       150 ms
//   pixels 1   ├1┤├2┤
//   encoder       ├─── 1 ───┤├─── 2 ───┤                 104.2 ms busy, 61 %
//   stage 0                  ╞═ 0-511 ═╡╞═ 512-700 ═╡     88.0 ms busy, 52 %

#ifndef RSERVE_TOOLS_RSERVE_TIMELINE_H_
#define RSERVE_TOOLS_RSERVE_TIMELINE_H_

#include <cstdint>
#include <string>
#include <vector>

namespace rserve::tool {

enum class BarKind : int32_t { kPixels = 0, kEncode = 1, kPrefill = 2 };

struct TimelineBar {
  BarKind kind = BarKind::kPixels;
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
  // Texts for inside the bar, longest first; the first that fits is written, or none.
  std::vector<std::string> labels;
};

struct TimelineLane {
  std::string name;
  std::vector<TimelineBar> bars;  // ascending, not overlapping
};

struct TimelineStyle {
  int width = 100;      // columns in all, at least 40
  bool unicode = true;  // false: ASCII only
};

// Bars too short for a column still get one, as long as there is room for them before the next.
std::string RenderTimeline(const std::vector<TimelineLane>& lanes, int64_t begin_ns, int64_t end_ns,
                           const TimelineStyle& style);

}  // namespace rserve::tool

#endif  // RSERVE_TOOLS_RSERVE_TIMELINE_H_
