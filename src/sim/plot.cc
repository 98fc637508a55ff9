#include "src/sim/plot.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"

namespace rserve::sim {
namespace {

constexpr double kWidth = 520, kLeft = 64, kRight = 24, kTop = 30, kArea = 220;
constexpr double kLegendRow = 17, kLaneHeight = 24;

constexpr const char* kColours[] = {"#767676", "#d55e00", "#56b4e9", "#cc79a7",
                                    "#0072b2", "#009e73", "#e69f00", "#222222"};
constexpr const char* kDark[] = {"#4d4d4d", "#8f3f00", "#2a7fae", "#8d4470",
                                 "#004a75", "#006b4e", "#a06e00", "#000000"};
constexpr const char* kDashes[] = {"", "6 3", "2 3"};

const char* Colour(int32_t index, bool dark = false) {
  const size_t at = static_cast<size_t>(index) % std::size(kColours);
  return dark ? kDark[at] : kColours[at];
}

std::string Text(double x, double y, const char* anchor, const std::string& text,
                 const char* extra = "") {
  return absl::StrFormat("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\"%s>%s</text>\n", x, y,
                         anchor, extra, EscapeXml(text));
}

std::string Number(double value) { return absl::StrFormat("%.6g", value); }

// Where values lie on a stretch of the drawing, and the values to mark on it.
class Axis {
 public:
  Axis(double low, double high, double from, double to, bool log)
      : low_(low), high_(high), from_(from), to_(to), log_(log) {
    if (!(high_ > low_)) high_ = low_ + 1;
    log ? MarkLog() : MarkLinear();
  }
  double At(double value) const {
    const double share =
        log_ ? std::log(value / low_) / std::log(high_ / low_) : (value - low_) / (high_ - low_);
    return from_ + (to_ - from_) * share;
  }
  const std::vector<double>& marks() const { return marks_; }

 private:
  // Steps of 1, 2 or 5 times a power of ten; the axis ends on one.
  void MarkLinear() {
    const double rough = (high_ - low_) / 5;
    const double power = std::pow(10, std::floor(std::log10(rough)));
    double step = 10 * power;
    for (double nice : {1.0, 2.0, 5.0}) {
      if (nice * power >= rough * 0.999) {
        step = nice * power;
        break;
      }
    }
    high_ = std::ceil(high_ / step - 1e-9) * step;
    for (double at = low_; at <= high_ + step * 0.01; at += step) marks_.push_back(at);
  }
  void MarkLog() {
    const double bottom = std::pow(10, std::floor(std::log10(low_)));
    const auto ends = [&](bool up, double value) {
      double best = up ? bottom * 1e9 : bottom;
      for (double power = bottom; power < bottom * 1e8; power *= 10) {
        for (double nice : {1.0, 2.0, 5.0}) {
          const double at = nice * power;
          if (up && at >= value * 0.999) best = std::min(best, at);
          if (!up && at <= value * 1.001) best = std::max(best, at);
        }
      }
      return best;
    };
    low_ = ends(false, low_);
    high_ = ends(true, high_);
    const bool many = high_ / low_ > 2000;
    for (double power = bottom; power <= high_ * 1.001; power *= 10) {
      for (double nice : {1.0, 2.0, 5.0}) {
        const double at = nice * power;
        if (many && nice > 1) continue;
        if (at >= low_ * 0.999 && at <= high_ * 1.001) marks_.push_back(at);
      }
    }
  }

  double low_, high_, from_, to_;
  bool log_;
  std::vector<double> marks_;
};

std::string Open(double height) {
  return absl::StrFormat(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.0f "
      "%.0f\" font-family=\"Helvetica, Arial, sans-serif\" font-size=\"11\" fill=\"#222\">\n"
      "<rect width=\"%.0f\" height=\"%.0f\" fill=\"#fff\"/>\n",
      kWidth, height, kWidth, height, kWidth, height);
}

std::string Title(const Plot& plot) {
  return Text(kLeft, 17, "start", plot.title, " font-size=\"12.5\" font-weight=\"bold\"");
}

double LegendHeight(const Plot& plot) {
  const auto drawn = std::count_if(plot.series.begin(), plot.series.end(),
                                   [](const PlotSeries& series) { return series.drawn; });
  return static_cast<double>((drawn + 1) / 2) * kLegendRow;
}

std::string Legend(const Plot& plot, double top) {
  std::string out;
  size_t next = 0;
  for (const PlotSeries& series : plot.series) {
    if (!series.drawn) continue;
    const size_t i = next++;
    const double x = i % 2 == 0 ? kLeft : kLeft + (kWidth - kLeft) / 2;
    const double y = top + static_cast<double>(i / 2) * kLegendRow + 8;
    if (plot.kind == Plot::Kind::kBars) {
      absl::StrAppendFormat(
          &out, "<rect x=\"%.1f\" y=\"%.1f\" width=\"12\" height=\"10\" fill=\"%s\"/>\n", x, y - 5,
          Colour(series.style.colour));
    } else {
      absl::StrAppendFormat(&out,
                            "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\" "
                            "stroke-width=\"2\" stroke-dasharray=\"%s\"/>\n",
                            x, y, x + 26, y, Colour(series.style.colour),
                            kDashes[series.style.dash % 3]);
    }
    out += Text(x + 32, y + 4, "start", series.name);
  }
  return out;
}

// The frame, marks and labels. `x_marks`: whether the axis below is one of numbers.
std::string Frame(const Plot& plot, const Axis& x, const Axis& y, double bottom, bool x_marks) {
  std::string out;
  for (double value : y.marks()) {
    absl::StrAppendFormat(
        &out, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"#ddd\"/>\n", kLeft,
        y.At(value), kWidth - kRight, y.At(value));
    out += Text(kLeft - 6, y.At(value) + 4, "end", Number(value));
  }
  if (x_marks) {
    for (double value : x.marks()) {
      absl::StrAppendFormat(
          &out, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"#999\"/>\n",
          x.At(value), bottom, x.At(value), bottom + 4);
      out += Text(x.At(value), bottom + 16, "middle", Number(value));
    }
  }
  absl::StrAppendFormat(&out,
                        "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"none\" "
                        "stroke=\"#999\"/>\n",
                        kLeft, kTop, kWidth - kRight - kLeft, bottom - kTop);
  out += Text((kLeft + kWidth - kRight) / 2, bottom + 34, "middle", plot.x_label);
  out += Text(0, 0, "middle", plot.y_label,
              absl::StrFormat(" transform=\"translate(13 %.1f) rotate(-90)\"", (kTop + bottom) / 2)
                  .c_str());
  return out;
}

std::string Lines(const Plot& plot) {
  double x_low = 1e300, x_high = -1e300, y_low = 1e300, y_high = -1e300;
  for (const PlotSeries& series : plot.series) {
    for (size_t i = 0; i < series.x.size() && series.drawn; ++i) {
      if (!std::isfinite(series.y[i]) || (plot.log_y && series.y[i] <= 0)) continue;
      x_low = std::min(x_low, series.x[i]);
      x_high = std::max(x_high, series.x[i]);
      y_low = std::min(y_low, series.y[i]);
      y_high = std::max(y_high, series.y[i]);
    }
  }
  if (x_low > x_high) x_low = y_low = 0, x_high = y_high = 1;
  if (plot.x_max > 0) x_high = plot.x_max;
  if (plot.y_max > 0) y_high = plot.y_max;
  const double bottom = kTop + kArea, height = bottom + 44 + LegendHeight(plot);
  const bool named = !plot.categories.empty();
  const Axis x(named ? -0.3 : 0, named ? static_cast<double>(plot.categories.size()) - 0.7 : x_high,
               kLeft, kWidth - kRight, false);
  const Axis y(plot.log_y ? y_low : 0, y_high, bottom, kTop, plot.log_y);
  std::string out = Open(height) + Title(plot) + Frame(plot, x, y, bottom, !named);
  const auto at_x = [&](double value) {
    if (!named) return x.At(value);
    const double count = static_cast<double>(plot.categories.size());
    return kLeft + (kWidth - kRight - kLeft) * (value + 0.5) / count;
  };
  for (size_t i = 0; i < plot.categories.size(); ++i) {
    out += Text(at_x(static_cast<double>(i)), bottom + 16, "middle", plot.categories[i]);
  }
  for (const PlotSeries& series : plot.series) {
    if (!series.drawn) continue;
    std::string points, dots;
    for (size_t i = 0; i < series.x.size(); ++i) {
      if (!std::isfinite(series.y[i]) || (plot.log_y && series.y[i] <= 0)) continue;
      absl::StrAppendFormat(&points, "%.1f,%.1f ", at_x(series.x[i]), y.At(series.y[i]));
      absl::StrAppendFormat(
          &dots,
          "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"2.6\" fill=\"%s\"><title>%s: %s, %s</title>"
          "</circle>\n",
          at_x(series.x[i]), y.At(series.y[i]), Colour(series.style.colour), EscapeXml(series.name),
          Number(series.x[i]), Number(series.y[i]));
    }
    absl::StrAppendFormat(
        &out,
        "<polyline points=\"%s\" fill=\"none\" stroke=\"%s\" stroke-width=\"1.8\" "
        "stroke-dasharray=\"%s\"/>\n",
        points, Colour(series.style.colour), kDashes[series.style.dash % 3]);
    out += dots;
  }
  return out + Legend(plot, bottom + 42) + "</svg>\n";
}

std::string Bars(const Plot& plot) {
  const size_t count = plot.categories.size();
  double high = 0;
  for (size_t c = 0; c < count; ++c) {
    double sum = 0;
    for (const PlotSeries& series : plot.series) sum += series.y[c];
    high = std::max(high, sum);
  }
  if (plot.y_max > 0) high = plot.y_max;
  const double bottom = kTop + kArea, height = bottom + 58 + LegendHeight(plot);
  const Axis y(0, high * 1.06, bottom, kTop, false);
  const Axis x(0, static_cast<double>(count), kLeft, kWidth - kRight, false);
  Plot frame = plot;
  frame.x_label.clear();
  std::string out = Open(height) + Title(plot) + Frame(frame, x, y, bottom, false);
  const double step = (kWidth - kRight - kLeft) / static_cast<double>(std::max<size_t>(count, 1));
  for (size_t c = 0; c < count; ++c) {
    const double left = kLeft + step * static_cast<double>(c);
    double sum = 0;
    for (const PlotSeries& series : plot.series) {
      const double top = y.At(sum + series.y[c]);
      absl::StrAppendFormat(&out,
                            "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" "
                            "fill=\"%s\"><title>%s: %s</title></rect>\n",
                            left + step * 0.15, top, step * 0.7, y.At(sum) - top,
                            Colour(series.style.colour), EscapeXml(series.name),
                            Number(series.y[c]));
      sum += series.y[c];
    }
    if (c < plot.notes.size()) {
      out += Text(left + step / 2, y.At(sum) - 4, "middle", plot.notes[c], " font-size=\"10\"");
    }
    double line = bottom + 14;
    for (const auto& part : absl::StrSplit(plot.categories[c], '\n')) {
      out += Text(left + step / 2, line, "middle", std::string(part), " font-size=\"10\"");
      line += 12;
    }
  }
  out += Text((kLeft + kWidth - kRight) / 2, bottom + 46, "middle", plot.x_label);
  return out + Legend(plot, bottom + 54) + "</svg>\n";
}

std::string Timeline(const Plot& plot) {
  double end = plot.x_max;
  for (const PlotSpan& span : plot.spans) end = std::max(end, span.end);
  const double bottom = kTop + kLaneHeight * static_cast<double>(plot.lanes.size());
  const Axis x(0, end, kLeft, kWidth - kRight, false), none(0, 1, bottom, kTop, false);
  std::string out = Open(bottom + 44) + Title(plot);
  for (double value : x.marks()) {
    absl::StrAppendFormat(
        &out, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"#ddd\"/>\n",
        x.At(value), kTop, x.At(value), bottom);
    out += Text(x.At(value), bottom + 16, "middle", Number(value));
  }
  for (size_t lane = 0; lane < plot.lanes.size(); ++lane) {
    const double top = kTop + kLaneHeight * static_cast<double>(lane);
    out += Text(kLeft - 6, top + kLaneHeight / 2 + 4, "end", plot.lanes[lane]);
    absl::StrAppendFormat(
        &out, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"#bbb\"/>\n", kLeft,
        top + kLaneHeight, kWidth - kRight, top + kLaneHeight);
  }
  for (const PlotSpan& span : plot.spans) {
    const double left = x.At(span.begin), right = x.At(span.end);
    const double top = kTop + kLaneHeight * static_cast<double>(span.lane) + 3;
    absl::StrAppendFormat(
        &out,
        "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\" "
        "stroke=\"#fff\" stroke-width=\"0.8\"><title>%s: %s to %s</title></rect>\n",
        left, top, std::max(right - left, 0.5), kLaneHeight - 6, Colour(span.colour, span.dark),
        EscapeXml(span.label), Number(span.begin), Number(span.end));
    if (right - left > 7.0 * static_cast<double>(span.label.size())) {
      out += Text((left + right) / 2, top + 13, "middle", span.label,
                  " font-size=\"10\" style=\"fill:#fff\"");
    }
  }
  out += Text((kLeft + kWidth - kRight) / 2, bottom + 34, "middle", plot.x_label);
  return out + "</svg>\n";
}

std::string Quoted(const std::string& text) {
  return absl::StrCat("\"", absl::StrReplaceAll(text, {{"\"", "\"\""}, {"\n", " "}}), "\"");
}

}  // namespace

std::string EscapeXml(const std::string& text) {
  return absl::StrReplaceAll(text,
                             {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}});
}

std::string ToSvg(const Plot& plot) {
  switch (plot.kind) {
    case Plot::Kind::kBars:
      return Bars(plot);
    case Plot::Kind::kTimeline:
      return Timeline(plot);
    case Plot::Kind::kLines:
      break;
  }
  return Lines(plot);
}

std::string ToCsv(const Plot& plot) {
  std::string out;
  if (plot.kind == Plot::Kind::kTimeline) {
    out = "lane,begin,end,label\n";
    for (const PlotSpan& span : plot.spans) {
      absl::StrAppendFormat(&out, "%s,%.6f,%.6f,%s\n",
                            Quoted(plot.lanes[static_cast<size_t>(span.lane)]), span.begin,
                            span.end, Quoted(span.label));
    }
    return out;
  }
  const bool bars = plot.kind == Plot::Kind::kBars;
  out = bars ? "category,series,y\n" : "series,x,y\n";
  for (const PlotSeries& series : plot.series) {
    for (size_t i = 0; i < series.y.size(); ++i) {
      if (bars) {
        absl::StrAppendFormat(&out, "%s,%s,%.9g\n", Quoted(plot.categories[i]), Quoted(series.name),
                              series.y[i]);
      } else {
        const std::string x = plot.categories.empty()
                                  ? absl::StrFormat("%.9g", series.x[i])
                                  : Quoted(plot.categories[static_cast<size_t>(series.x[i])]);
        absl::StrAppendFormat(&out, "%s,%s,%.9g\n", Quoted(series.name), x, series.y[i]);
      }
    }
  }
  return out;
}

}  // namespace rserve::sim
