// The page of all figures.

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "src/sim/figures.h"

namespace rserve::sim {
namespace {

constexpr char kStyle[] = R"(
body { font: 15px/1.5 Helvetica, Arial, sans-serif; color: #222; margin: 2em auto; max-width: 1120px; padding: 0 1em; }
h1 { font-size: 1.6em; } h2 { font-size: 1.25em; margin-top: 2em; border-bottom: 1px solid #ccc; }
figure { margin: 0; width: 520px; } figcaption { font-size: 12.5px; color: #444; line-height: 1.35; }
.plots { display: flex; flex-wrap: wrap; gap: 24px 32px; }
table { border-collapse: collapse; font-size: 13px; margin: 1em 0; }
th, td { border-bottom: 1px solid #ddd; padding: 3px 9px; text-align: left; vertical-align: top; }
td.n, th.n { text-align: right; white-space: nowrap; } td.note { color: #444; max-width: 400px; }
nav a { margin-right: 0.8em; } .warn { background: #fff4d6; padding: 0.6em 1em; border-radius: 4px; }
)";

std::string Value(double value, const Comparison& c) {
  if (!std::isfinite(value)) return "";
  if (c.share) return absl::StrFormat("%.1f %%", 100 * value);
  if (c.per_cent) return absl::StrFormat("%+.1f %%", 100 * value);
  return value >= 100 ? absl::StrFormat("%.0f", value) : absl::StrFormat("%.2f", value);
}

// In points of per cent, or in per cent of the paper's number.
std::string Difference(const Comparison& c) {
  if (!std::isfinite(c.paper_value)) return "";
  if (c.per_cent) return absl::StrFormat("%+.1f points", 100 * (c.b - c.paper_value));
  return absl::StrFormat("%+.1f %%", 100 * (c.b / c.paper_value - 1));
}

std::string ComparisonTable(const Figure& figure) {
  if (figure.comparisons.empty()) return "";
  std::string out =
      "<table><tr><th>what</th><th class=\"n\">paper</th><th class=\"n\">simulated, a</th>"
      "<th class=\"n\">simulated, b</th><th class=\"n\">b - paper</th><th>note</th></tr>\n";
  for (const Comparison& c : figure.comparisons) {
    absl::StrAppend(&out, "<tr><td>", EscapeXml(c.what), "</td><td class=\"n\">",
                    EscapeXml(c.paper.empty() ? "-" : c.paper), "</td><td class=\"n\">",
                    Value(c.a, c), "</td><td class=\"n\">", Value(c.b, c), "</td><td class=\"n\">",
                    Difference(c), "</td><td class=\"note\">", EscapeXml(c.note), "</td></tr>\n");
  }
  return out + "</table>\n";
}

std::string Quoted(const std::string& text) {
  return absl::StrCat("\"", absl::StrReplaceAll(text, {{"\"", "\"\""}}), "\"");
}

std::string Plain(double value) {
  return std::isfinite(value) ? absl::StrFormat("%.6g", value) : "";
}

}  // namespace

std::string ReportHtml(const std::vector<Figure>& figures, const FigureOptions& options) {
  std::string out = absl::StrCat(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n<title>rserve: the "
      "paper's figures, simulated</title>\n<style>",
      kStyle, "</style></head><body>\n<h1>The paper's figures, simulated</h1>\n",
      "<p class=\"warn\">Every number and plot on this page comes from rserve's simulator, which "
      "drives the scheduler that serves with virtual time and a cost model. Nothing here is a "
      "measurement.</p>\n<p>The plots use calibration ",
      options.calibration, ", ", options.requests, " requests a point and the seeds ",
      absl::StrJoin(options.seeds, ", "),
      ". Calibration <i>a</i> charges 150 ms a request on the first stage, <i>b</i> none and a "
      "lower efficiency of the matrix products; what holds under one only is not a finding. The "
      "paper compares systems of five devices (PP4+E1) with systems of four (PP4); a co-located "
      "pipeline on five devices (PP5) stands beside them. <i>adaptive</i> is this project's "
      "scheme.</p>\n<nav>");
  for (const Figure& figure : figures) {
    absl::StrAppend(&out, "<a href=\"#fig", figure.number, "\">Figure ", figure.number, "</a>");
  }
  absl::StrAppend(&out, "</nav>\n");
  for (const Figure& figure : figures) {
    absl::StrAppend(&out, "<h2 id=\"fig", figure.number, "\">Figure ", figure.number, ". ",
                    EscapeXml(figure.title), "</h2>\n<div class=\"plots\">\n");
    for (const Plot& plot : figure.plots) {
      absl::StrAppend(&out, "<figure>", ToSvg(plot), "<figcaption>", EscapeXml(plot.caption),
                      "</figcaption></figure>\n");
    }
    absl::StrAppend(&out, "</div>\n", ComparisonTable(figure));
  }
  return out + "</body></html>\n";
}

std::string ComparisonsCsv(const std::vector<Figure>& figures) {
  std::string out = "figure,what,paper,paper_value,simulated_a,simulated_b,note\n";
  for (const Figure& figure : figures) {
    for (const Comparison& c : figure.comparisons) {
      absl::StrAppend(&out, figure.number, ",", Quoted(c.what), ",", Quoted(c.paper), ",",
                      Plain(c.paper_value), ",", Plain(c.a), ",", Plain(c.b), ",", Quoted(c.note),
                      "\n");
    }
  }
  return out;
}

}  // namespace rserve::sim
