// Figures, plots and fitted costs.

#include "src/sim/figures.h"

#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "src/sim/fit.h"
#include "src/sim/plot.h"
#include "src/sim/scheme.h"
#include "src/sim/shared_machine.h"
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
  const FittedStage truth{3e6, 40000, 12, 5e5, {}};
  const auto costs = FitCosts({Samples(truth, {256, 300, 17, 640, 90, 512, 33, 256, 800})}, 1);
  const FittedStage& stage = costs.stages[0];
  CHECK(Near(stage.fixed_ns, truth.fixed_ns));
  CHECK(Near(stage.token_ns, truth.token_ns));
  CHECK(Near(stage.pair_ns, truth.pair_ns));
  CHECK(Near(stage.finished_ns, truth.finished_ns));
}

ActionSample Encoded(int64_t tokens, TimeNs ns) {
  ActionSample sample;
  sample.kind = ActionSample::Kind::kEncode;
  sample.tokens = tokens;
  sample.ns = ns;
  return sample;
}

TEST_CASE("what samples of one size do not tell apart is put on the tokens, and nothing below 0") {
  std::vector<ActionSample> samples;
  for (int i = 0; i < 5; ++i) {
    samples.push_back(Encoded(256, 1'000'000));
  }
  FittedCosts costs = FitCosts({samples}, 1);
  CHECK(costs.encode_ns == 0);
  CHECK(Near(costs.encode_token_ns * 256, 1e6));
  CHECK(costs.stages[0].token_ns == 0);         // no samples
  samples.push_back(Encoded(1024, 5'000'000));  // more than four times
  costs = FitCosts({samples}, 1);
  CHECK(costs.encode_ns == 0);
  CHECK(costs.encode_token_ns > 0);
}

ActionSample At(ActionSample::Kind kind, int32_t worker, TimeNs begin_ns, TimeNs end_ns) {
  ActionSample sample;
  sample.kind = kind;
  sample.stage = kind == ActionSample::Kind::kStage ? 0 : -1;
  sample.tokens = 100;
  sample.worker = worker;
  sample.begin_ns = begin_ns;
  sample.ns = end_ns - begin_ns;
  return sample;
}

TEST_CASE("what ran beside an action is the time of the others while it ran, never its own") {
  using Kind = ActionSample::Kind;
  std::vector<ActionSample> pass = {
      At(Kind::kStage, 0, 0, 100),    At(Kind::kEncode, 1, 50, 120), At(Kind::kPrepare, -1, 0, 30),
      At(Kind::kPrepare, -1, 20, 60), At(Kind::kStage, 0, 110, 200),
  };
  FindNeighbours(absl::MakeSpan(pass));
  CHECK(pass[0].beside_workers_ns == 50);
  CHECK(pass[0].beside_prepares_ns == 70);
  CHECK(pass[1].beside_workers_ns == 60);
  CHECK(pass[1].beside_prepares_ns == 10);
  CHECK(pass[2].beside_workers_ns == 30);
  CHECK(pass[2].beside_prepares_ns == 10);
  CHECK(pass[4].beside_workers_ns == 10);
  CHECK(pass[4].beside_prepares_ns == 0);
  // From ends at 30, 30, 100 to begins at 50, 20 (none before), 110.
  CHECK(DecisionNs(pass) == 20);
}

TEST_CASE("how much neighbours slow an action down is found again") {
  std::vector<ActionSample> samples;
  for (int i = 0; i < 24; ++i) {
    ActionSample sample = At(ActionSample::Kind::kEncode, 1, 0, 0);
    sample.tokens = 100 + 50 * (i % 5);
    const double alone = 2e6 + 3e4 * static_cast<double>(sample.tokens);
    // Beside a worker for a part of it, and beside preparations for another.
    sample.beside_workers_ns = alone * (i % 3) / 3;
    sample.beside_prepares_ns = alone * (i % 4) / 8;
    sample.ns = static_cast<TimeNs>(alone + 0.2 * sample.beside_workers_ns +
                                    0.5 * sample.beside_prepares_ns);
    samples.push_back(sample);
  }
  const FittedCosts costs = FitCosts({samples}, 1);
  CHECK(Near(costs.encode_ns, 2e6));
  CHECK(Near(costs.encode_token_ns, 3e4));
  CHECK(Near(costs.encode_slowed.by_worker, 0.2));
  CHECK(Near(costs.encode_slowed.by_prepare, 0.5));
}

TEST_CASE(
    "passes on a machine whose speed drifts give the costs of its mean pace, and their paces") {
  const FittedStage truth{3e6, 40000, 12, 5e5, {}};
  std::vector<std::vector<ActionSample>> passes;
  const std::vector<Pace> paces = {{0.8, 1.2}, {1.0, 0.9}, {1.2, 0.9}};
  for (size_t p = 0; p < paces.size(); ++p) {
    // Of other sizes in each pass, so that neither costs nor paces can be read off alone.
    std::vector<int64_t> sizes = {256, 300, 17, 640, 90, 512};
    for (int64_t& size : sizes) size += 70 * static_cast<int64_t>(p);
    std::vector<ActionSample> pass = Samples(truth, sizes);
    for (int64_t tokens : {100, 400, 250}) {
      tokens += 50 * static_cast<int64_t>(p);
      pass.push_back(Encoded(tokens, 2'000'000 + 30'000 * tokens));
    }
    for (ActionSample& sample : pass) {
      const bool encode = sample.kind == ActionSample::Kind::kEncode;
      sample.ns = std::llround(static_cast<double>(sample.ns) *
                               (encode ? paces[p].encode : paces[p].stage));
    }
    passes.push_back(std::move(pass));
  }
  const FittedCosts costs = FitCosts(passes, 1);
  CHECK(Near(costs.encode_ns, 2e6));
  CHECK(Near(costs.encode_token_ns, 3e4));
  CHECK(Near(costs.stages[0].fixed_ns, truth.fixed_ns));
  CHECK(Near(costs.stages[0].token_ns, truth.token_ns));
  CHECK(Near(costs.stages[0].pair_ns, truth.pair_ns));
  for (size_t p = 0; p < paces.size(); ++p) {
    const Pace pace = PaceOf(costs, passes[p]);
    CHECK(Near(pace.encode, paces[p].encode));
    CHECK(Near(pace.stage, paces[p].stage));
  }
  const FittedCosts slower = AtPace(costs, {2, 3});
  CHECK(Near(slower.encode_token_ns, 6e4));
  CHECK(Near(slower.stages[0].token_ns, 3 * truth.token_ns));
  CHECK(PaceOf(costs, {}).encode == 1);
}

TEST_CASE("actions that run together take longer by what they lose meanwhile") {
  SharedMachine machine;
  CHECK(machine.next_end_ns() == kNever);
  machine.Start(0, 1, 0, 1000, {0.5, 0.25});
  machine.Start(400, 2, 1, 300, {0, 0});
  // The second is not slowed and ends at 700; until then the first has done 400 + 150.
  CHECK(machine.next_end_ns() == 700);
  CHECK(machine.EndNext().token == 2);
  machine.Start(700, 3, -1, 100, {0.5, 0});
  // The preparation makes half its way beside a worker: 200 for 100, in which the first does 150.
  CHECK(machine.next_end_ns() == 900);
  CHECK(machine.EndNext().token == 3);
  CHECK(machine.next_end_ns() == 900 + 450 - 150);
  const SharedMachine::Action ended = machine.EndNext();
  CHECK(ended.token == 1);
  CHECK(ended.begin_ns == 0);
  CHECK(machine.next_end_ns() == kNever);
}

TEST_CASE("a lone request takes the fitted costs of its actions, one after another") {
  SimConfig config = MakeConfig("epd", "TP1+E1", "b");
  FittedCosts costs;
  costs.front_end_ns = 1000;
  costs.prepare_ns = 20000;
  costs.encode_ns = 300000;
  costs.encode_token_ns = 10;
  costs.stages = {{4'000'000, 100, 1, 50000, {}}};
  // Nothing runs beside it.
  costs.prepare_slowed = costs.encode_slowed = costs.stages[0].slowed = {0.5, 0.5};
  costs.decision_ns = 700;
  config.fitted = costs;
  config.media_lanes = 1;
  SimRequest request;
  request.prompt_tokens = 300;
  request.items = {{10, 200, 1, 0}};
  auto source = MakeSource(std::vector<SimRequest>{request});
  const auto result = Simulate(config, *source);
  REQUIRE(result.ok());
  CHECK(result->requests[0].ttft_ns == 1000 + 20000 + 300000 + 2000 + 4'000'000 + 30000 +
                                           AttentionPairs(300, 0) + 50000 + 3 * 700);
}

}  // namespace
}  // namespace rserve::sim
