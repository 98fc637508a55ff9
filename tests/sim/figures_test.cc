// Figures, plots and fitted costs.

#include "src/sim/figures.h"

#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "src/sim/fit.h"
#include "src/sim/plot.h"
#include "src/sim/scheme.h"
#include "tests/support/catch.h"

namespace rserve::sim {
namespace {

size_t Count(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

bool Near(double a, double b) { return std::fabs(a - b) <= 0.01 * std::fabs(b); }

TEST_CASE("every figure has plots with names of their own, and drawings that are whole") {
  FigureOptions options;
  options.requests = 6;
  options.seeds = {1};
  const auto figures = MakeFigures(options);
  REQUIRE(figures.ok());
  CHECK(figures->size() == FigureNumbers().size());
  std::set<std::string> ids;
  for (const Figure& figure : *figures) {
    CAPTURE(figure.number);
    CHECK_FALSE(figure.plots.empty());
    CHECK_FALSE(figure.comparisons.empty());
    for (const Plot& plot : figure.plots) {
      CAPTURE(plot.id);
      CHECK(ids.insert(plot.id).second);
      CHECK(plot.id.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") ==
            std::string::npos);
      CHECK_FALSE(plot.caption.empty());
      CHECK_FALSE(plot.x_label.empty());
      const std::string svg = ToSvg(plot);
      CHECK(svg.find("nan") == std::string::npos);
      CHECK(svg.find("inf\"") == std::string::npos);
      for (const char* tag : {"text", "title", "svg"}) {
        CHECK(Count(svg, std::string("<") + tag) == Count(svg, std::string("</") + tag));
      }
      CHECK(Count(ToCsv(plot), "\n") > 1);
    }
  }
  const std::string html = ReportHtml(*figures, options);
  CHECK(Count(html, "<svg ") == ids.size());
  CHECK(html.find("http") == html.find("http://www.w3.org/2000/svg"));  // nothing from elsewhere
  CHECK(html.find("<script") == std::string::npos);
}

TEST_CASE("figures are the same every time, and an unknown number is refused by name") {
  FigureOptions options;
  options.requests = 4;
  options.seeds = {3};
  options.only = {"5", "16"};
  const auto once = MakeFigures(options), again = MakeFigures(options);
  REQUIRE(once.ok());
  CHECK(once->size() == 2);
  CHECK(ReportHtml(*once, options) == ReportHtml(*again, options));
  CHECK(ComparisonsCsv(*once) == ComparisonsCsv(*again));
  options.only = {"11"};
  const absl::Status status = MakeFigures(options).status();
  CHECK(status.code() == absl::StatusCode::kInvalidArgument);
  CHECK(std::string(status.message()).find("\"11\"") != std::string::npos);
}

TEST_CASE("text in a drawing is escaped") {
  Plot plot;
  plot.title = "a < b & \"c\"";
  plot.series = {{"<x>", {0, 0}, {1, 2}, {3, 4}}};
  const std::string svg = ToSvg(plot);
  CHECK(svg.find("a &lt; b &amp; &quot;c&quot;") != std::string::npos);
  CHECK(svg.find("<x>") == std::string::npos);
}

// ---- Fit
// ------------------------------------------------------------------------------------------

std::vector<ActionSample> Samples(const FittedStage& truth, const std::vector<int64_t>& sizes) {
  std::vector<ActionSample> samples;
  int64_t past = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    ActionSample sample;
    sample.kind = ActionSample::Kind::kStage;
    sample.stage = 0;
    sample.tokens = sizes[i];
    sample.pairs = AttentionPairs(sizes[i], past);
    sample.finished = i % 3 == 2 ? 1 : 0;
    past = sample.finished == 1 ? 0 : past + sizes[i];
    sample.ns =
        static_cast<TimeNs>(truth.fixed_ns + truth.token_ns * static_cast<double>(sample.tokens) +
                            truth.pair_ns * static_cast<double>(sample.pairs) +
                            truth.finished_ns * static_cast<double>(sample.finished));
    samples.push_back(sample);
  }
  return samples;
}

TEST_CASE("costs that made the samples are found again") {
  const FittedStage truth{3e6, 40000, 12, 5e5};
  const auto costs = FitCosts(Samples(truth, {256, 300, 17, 640, 90, 512, 33, 256, 800}), 1);
  const FittedStage& stage = costs.stages[0];
  CHECK(Near(stage.fixed_ns, truth.fixed_ns));
  CHECK(Near(stage.token_ns, truth.token_ns));
  CHECK(Near(stage.pair_ns, truth.pair_ns));
  CHECK(Near(stage.finished_ns, truth.finished_ns));
}

TEST_CASE("what samples of one size do not tell apart is put on the tokens, and nothing below 0") {
  std::vector<ActionSample> samples;
  for (int i = 0; i < 5; ++i) {
    samples.push_back({ActionSample::Kind::kEncode, -1, 256, 0, 0, 1'000'000});
  }
  FittedCosts costs = FitCosts(samples, 1);
  CHECK(costs.encode_ns == 0);
  CHECK(Near(costs.encode_token_ns * 256, 1e6));
  CHECK(costs.stages[0].token_ns == 0);  // no samples
  samples.push_back(
      {ActionSample::Kind::kEncode, -1, 1024, 0, 0, 5'000'000});  // more than four times
  costs = FitCosts(samples, 1);
  CHECK(costs.encode_ns == 0);
  CHECK(costs.encode_token_ns > 0);
}

TEST_CASE("a lone request takes the fitted costs of its actions, one after another") {
  SimConfig config = MakeConfig("epd", "TP1+E1", "b");
  FittedCosts costs;
  costs.front_end_ns = 1000;
  costs.prepare_ns = 20000;
  costs.encode_ns = 300000;
  costs.encode_token_ns = 10;
  costs.stages = {{4'000'000, 100, 1, 50000}};
  config.fitted = costs;
  config.media_lanes = 1;
  SimRequest request;
  request.prompt_tokens = 300;
  request.items = {{10, 200, 1, 0}};
  auto source = MakeSource(std::vector<SimRequest>{request});
  const auto result = Simulate(config, *source);
  REQUIRE(result.ok());
  CHECK(result->requests[0].ttft_ns ==
        1000 + 20000 + 300000 + 2000 + 4'000'000 + 30000 + AttentionPairs(300, 0) + 50000);
}

}  // namespace
}  // namespace rserve::sim
