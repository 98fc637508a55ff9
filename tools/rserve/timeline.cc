#include "tools/rserve/timeline.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/rserve/text.h"

namespace rserve::tool {
namespace {

// The pieces a bar is drawn of.
struct Glyphs {
  const char* left;
  const char* fill;
  const char* right;
  const char* single;  // a bar of one column
};

const Glyphs& GlyphsOf(BarKind kind, bool unicode) {
  static constexpr Glyphs kUnicode[] = {
      {"├", "┄", "┤", "┆"}, {"├", "─", "┤", "│"}, {"╞", "═", "╡", "║"}};
  static constexpr Glyphs kAscii[] = {
      {"[", ".", "]", ":"}, {"[", "-", "]", "|"}, {"[", "=", "]", "I"}};
  return (unicode ? kUnicode : kAscii)[static_cast<int>(kind)];
}

// Splits a UTF-8 text into its characters, one column each.
std::vector<std::string> Characters(const std::string& text) {
  std::vector<std::string> out;
  for (const char c : text) {
    if ((c & 0xC0) == 0x80 && !out.empty()) {
      out.back() += c;
    } else {
      out.emplace_back(1, c);
    }
  }
  return out;
}

void DrawBar(const TimelineBar& bar, size_t first, size_t columns, bool unicode,
             std::vector<std::string>* cells) {
  const Glyphs& glyphs = GlyphsOf(bar.kind, unicode);
  if (columns == 1) {
    (*cells)[first] = glyphs.single;
    return;
  }
  std::fill_n(cells->begin() + static_cast<int64_t>(first), columns, glyphs.fill);
  (*cells)[first] = glyphs.left;
  (*cells)[first + columns - 1] = glyphs.right;
  for (const std::string& label : bar.labels) {
    std::vector<std::string> text = Characters(label);
    if (text.empty() || text.size() + 2 > columns) continue;
    if (text.size() + 4 <= columns) {
      text.insert(text.begin(), " ");
      text.emplace_back(" ");
    }
    std::copy(text.begin(), text.end(),
              cells->begin() + static_cast<int64_t>(first + (columns - text.size()) / 2));
    return;
  }
}

// The distance of the axis' marks: 1, 2 or 5 times a power of ten, at least `min_ms`.
double TickStep(double min_ms) {
  const double power = std::pow(10.0, std::floor(std::log10(min_ms)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (power * factor >= min_ms) return power * factor;
  }
  return power * 10;
}

std::string Axis(size_t columns, double ms_per_column) {
  const double step = TickStep(10 * ms_per_column);
  const int digits = step >= 1 ? 0 : step >= 0.1 ? 1 : step >= 0.01 ? 2 : 3;
  std::string axis;
  for (int tick = 0;; ++tick) {
    const auto column = static_cast<size_t>(std::llround(tick * step / ms_per_column));
    std::string text = absl::StrFormat("%.*f", digits, tick * step);
    if (column + text.size() + 3 > columns) break;
    if (column < axis.size()) continue;
    axis.resize(column, ' ');
    axis += text;
  }
  return axis + " ms";
}

std::string Legend(const std::vector<TimelineLane>& lanes, bool unicode) {
  bool used[3] = {};
  for (const TimelineLane& lane : lanes) {
    for (const TimelineBar& bar : lane.bars) used[static_cast<int>(bar.kind)] = true;
  }
  static constexpr const char* kWords[] = {"pixels (picture)", "encode (picture)",
                                           "prefill (prompt tokens)"};
  std::string out;
  for (int kind = 0; kind < 3; ++kind) {
    if (!used[kind]) continue;
    const Glyphs& glyphs = GlyphsOf(static_cast<BarKind>(kind), unicode);
    absl::StrAppend(&out, out.empty() ? "" : "   ", glyphs.left, glyphs.fill, glyphs.right, " ",
                    kWords[kind]);
  }
  return out;
}

}  // namespace

std::string RenderTimeline(const std::vector<TimelineLane>& lanes, int64_t begin_ns, int64_t end_ns,
                           const TimelineStyle& style) {
  size_t name_width = 0;
  for (const TimelineLane& lane : lanes) {
    name_width = std::max(name_width, DisplayWidth(lane.name));
  }
  constexpr size_t kTail = 14;  // "  1234 ms 100%"
  const auto width = static_cast<size_t>(std::max(style.width, 40));
  const size_t columns = width > name_width + 2 + kTail + 10 ? width - name_width - 2 - kTail : 10;
  const auto total_ns = static_cast<double>(std::max<int64_t>(end_ns - begin_ns, 1));

  std::string out(name_width + 2, ' ');
  absl::StrAppend(&out, Axis(columns, total_ns / 1e6 / static_cast<double>(columns)), "\n");
  for (const TimelineLane& lane : lanes) {
    std::vector<std::string> cells(columns, " ");
    size_t free_from = 0;
    int64_t busy_ns = 0;
    for (const TimelineBar& bar : lane.bars) {
      busy_ns += bar.end_ns - bar.begin_ns;
      const auto column = [&](int64_t time_ns) {
        const double at = static_cast<double>(time_ns - begin_ns) / total_ns;
        return static_cast<size_t>(
            std::llround(std::clamp(at, 0.0, 1.0) * static_cast<double>(columns)));
      };
      const size_t first = std::max(column(bar.begin_ns), free_from);
      const size_t last = std::min(std::max(column(bar.end_ns), first + 1), columns);
      if (first >= last) continue;
      DrawBar(bar, first, last - first, style.unicode, &cells);
      free_from = last;
    }
    absl::StrAppend(&out, lane.name, std::string(name_width + 2 - DisplayWidth(lane.name), ' '));
    for (const std::string& cell : cells) out += cell;
    absl::StrAppendFormat(&out, "  %7s %3.0f%%\n", FormatMs(busy_ns),
                          100 * static_cast<double>(busy_ns) / total_ns);
  }
  absl::StrAppend(&out, std::string(name_width + 2, ' '), Legend(lanes, style.unicode), "\n");
  return out;
}

}  // namespace rserve::tool
