// Figure 16: the embedding batch size C.

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "src/sim/figure_parts.h"

namespace rserve::sim {
namespace {

// Two requests at once, together with 20 pictures and 2000 tokens of text.
WorkloadSpec Spec(int64_t item_tokens) {
  WorkloadSpec spec;
  spec.kind = WorkloadKind::kFixed;
  spec.arrivals = ArrivalKind::kAtOnce;
  spec.requests = 2;
  spec.fixed_items = 10;
  spec.fixed_text_tokens = 1000;
  spec.fixed_item_tokens = item_tokens;
  return spec;
}

std::vector<int64_t> Sizes(bool large) {
  if (large) return {1024, 2048, 4096, 8192, kEncodeAll};
  return {1, 64, 128, 256, kEncodeAll};
}

std::vector<Summary> Runs(FigureRuns& runs, const std::string& model, const std::string& cal,
                          bool large) {
  std::vector<Summary> out;
  for (int64_t size : Sizes(large)) {
    SimConfig config = MakeConfig("rserve", "PP4+E1", cal, model);
    config.policy.encode_batch_tokens = size;
    out.push_back(runs.Run(config, Spec(large ? 1024 : 32)).summary);
  }
  return out;
}

}  // namespace

Figure Figure16(FigureRuns& runs) {
  Figure figure{"16", "The embedding batch size C: two requests, 20 pictures", {}, {}};
  const std::string cal = runs.options().calibration;
  for (const bool large : {true, false}) {
    const std::string part = large ? "a" : "b";
    Plot mean, last, throughput;
    const std::vector<std::string> models =
        large ? std::vector<std::string>{"72b"} : std::vector<std::string>{"7b", "32b", "72b"};
    for (Plot* plot : {&mean, &last, &throughput}) {
      for (int64_t size : Sizes(large)) {
        plot->categories.push_back(size == kEncodeAll ? "all" : absl::StrCat(size));
      }
      plot->x_label = "C, tokens";
      plot->caption = absl::StrCat(
          "Two requests at once, each with 10 pictures of ", large ? 1024 : 32,
          " tokens and 1000 tokens of text, rserve PP4+E1; for comparison adaptive PP4+E1, which "
          "chooses C itself, and colocated PP5. Of two requests the 99th percentile is the later "
          "one. Simulated, calibration ",
          cal, ".");
    }
    int32_t colour = 4;
    for (const std::string& model : models) {
      const auto add = [&](Plot* plot, const std::string& name, PlotStyle style,
                           const std::vector<double>& y) {
        PlotSeries series{name, style, {}, y};
        for (size_t i = 0; i < y.size(); ++i) series.x.push_back(static_cast<double>(i));
        plot->series.push_back(std::move(series));
      };
      std::vector<double> means, lasts, rates;
      for (const Summary& summary : Runs(runs, model, cal, large)) {
        means.push_back(summary.ttft_mean_s);
        lasts.push_back(summary.ttft_max_s);
        rates.push_back(summary.tokens_per_s);
      }
      const std::string name = absl::StrCat("rserve, ", model);
      add(&mean, name, {colour, 0}, means);
      add(&last, name, {colour, 0}, lasts);
      add(&throughput, name, {colour, 0}, rates);
      int32_t dash = 1;
      for (const auto& [scheme, layout] :
           {std::pair<std::string, std::string>("adaptive", "PP4+E1"), {"colocated", "PP5"}}) {
        const Summary other =
            runs.Run(MakeConfig(scheme, layout, cal, model), Spec(large ? 1024 : 32)).summary;
        const auto level = [&](double value) { return std::vector<double>(means.size(), value); };
        const std::string what = absl::StrCat(scheme, " ", layout, ", ", model);
        add(&mean, what, {colour, dash}, level(other.ttft_mean_s));
        add(&last, what, {colour, dash}, level(other.ttft_max_s));
        add(&throughput, what, {colour, dash}, level(other.tokens_per_s));
        ++dash;
      }
      colour = colour == 4 ? 1 : 5;
    }
    const std::string title = absl::StrCat("Figure 16", part, ", ", large ? 1024 : 32, " tokens: ");
    mean.id = absl::StrCat("fig16", part, "_mean");
    mean.title = title + "TTFT, mean";
    last.id = absl::StrCat("fig16", part, "_last");
    last.title = title + "TTFT of the later request";
    throughput.id = absl::StrCat("fig16", part, "_throughput");
    throughput.title = title + "throughput";
    mean.y_label = last.y_label = "seconds";
    throughput.y_label = "prompt tokens a second";
    for (Plot* plot : {&mean, &last, &throughput}) figure.plots.push_back(std::move(*plot));
  }
  figure.comparisons.push_back(Compare(
      "16a: encode all over C = 1024, TTFT", "up to 2.91 x", 2.91,
      [&](const std::string& calibration) {
        const std::vector<Summary> all = Runs(runs, "72b", calibration, true);
        return all.back().ttft_mean_s / all.front().ttft_mean_s;
      },
      "can't be had: overlapping two stages gives at most 1.67 when each request is encoded whole "
      "and 2.33 when both are; more needs a third serial stage",
      false));
  figure.comparisons.push_back(Compare(
      "16a: encode all over C = 1024, throughput", "-53 %", -0.53,
      [&](const std::string& calibration) {
        const std::vector<Summary> all = Runs(runs, "72b", calibration, true);
        return Change(all.front().tokens_per_s, all.back().tokens_per_s);
      },
      "can't be had: at most -33 % when each request is encoded whole, -50 % when both are"));
  for (const char* model : {"7b", "32b", "72b"}) {
    figure.comparisons.push_back(Compare(
        absl::StrCat("16b, ", model, ": the better end over the best C, TTFT"), "U-shaped (> 1)",
        std::numeric_limits<double>::quiet_NaN(),
        [&](const std::string& calibration) {
          const std::vector<Summary> all = Runs(runs, model, calibration, false);
          double best = all[0].ttft_mean_s;
          for (const Summary& one : all) best = std::min(best, one.ttft_mean_s);
          return std::min(all.front().ttft_mean_s, all.back().ttft_mean_s) / best;
        },
        std::string(model) == "72b"
            ? "the launch of small batches hides behind the prefill of 72B"
            : "under calibration a the cost of a request hides the encoder of so small a request",
        false));
  }
  return figure;
}

}  // namespace rserve::sim
