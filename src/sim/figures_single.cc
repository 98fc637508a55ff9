// Figures of one or a few requests, and of the workload: 2, 5, 7, 10, 15.

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "src/sim/figure_parts.h"

namespace rserve::sim {
namespace {

constexpr double kNoNumber = std::numeric_limits<double>::quiet_NaN();
constexpr int32_t kEncodeColour = 6;
constexpr int32_t kPrefillColour = 4;

double Ms(TimeNs ns) { return static_cast<double>(ns) * 1e-6; }

SimRequest Request(TimeNs arrival_ns, const std::vector<int64_t>& items, int64_t text_tokens) {
  SimRequest request;
  request.arrival_ns = arrival_ns;
  const auto gaps = static_cast<int64_t>(items.size()) + 1;
  int64_t at = 0;
  for (size_t i = 0; i < items.size(); ++i) {
    at += text_tokens / gaps;
    request.items.push_back({at, items[i], 1, 0});
    at += items[i];
  }
  request.prompt_tokens = at + text_tokens - text_tokens / gaps * (gaps - 1);
  return request;
}

SimConfig Named(const std::string& scheme, const std::string& layout,
                const std::string& calibration, const std::string& model = "72b") {
  SimConfig config = MakeConfig(scheme, layout, calibration, model);
  if (scheme == "adaptive") config.layout.layers = BalancedLayers(config, WorkloadSpec());
  return config;
}

// What ran when, by worker; preparation on host cores is left out.
Plot TimelinePlot(const SimConfig& config, const SimResult& result) {
  Plot plot;
  plot.kind = Plot::Kind::kTimeline;
  plot.x_label = "milliseconds";
  for (int32_t stage = 0; stage < config.layout.stages; ++stage) {
    const bool shared = stage == 0 && config.layout.encoders == 0;
    plot.lanes.push_back(absl::StrCat(shared ? "E, " : "", "stage ", stage));
  }
  for (int32_t e = 0; e < config.layout.encoders; ++e) plot.lanes.push_back("encoder");
  for (const SimSpan& span : result.spans) {
    if (span.worker < 0) continue;
    const bool encode = span.kind == SimSpan::Kind::kEncode;
    plot.spans.push_back({span.worker, Ms(span.begin_ns), Ms(span.end_ns),
                          encode ? kEncodeColour : kPrefillColour, span.first_request % 2 == 0,
                          absl::StrCat(encode ? "E" : "", span.first_request)});
  }
  return plot;
}

double MeanTtftMs(const SimResult& result) {
  double sum = 0;
  for (const RequestOutcome& request : result.requests) sum += Ms(request.ttft_ns);
  return sum / static_cast<double>(result.requests.size());
}

double LastTtftMs(const SimResult& result) {
  double most = 0;
  for (const RequestOutcome& request : result.requests) most = std::max(most, Ms(request.ttft_ns));
  return most;
}

struct Panel {
  std::string id;
  std::string name;
  SimConfig config;
};

// Panels of one time axis, one below the other.
void AddTimelines(FigureRuns& runs, const std::vector<Panel>& panels,
                  const std::vector<SimRequest>& requests, const std::string& caption,
                  Figure* figure) {
  double end = 0;
  const size_t first = figure->plots.size();
  for (const Panel& panel : panels) {
    const SimResult result = runs.Trace(panel.config, requests);
    Plot plot = TimelinePlot(panel.config, result);
    plot.id = panel.id;
    plot.title = requests.size() == 1
                     ? absl::StrFormat("%s: TTFT %.0f ms", panel.name, LastTtftMs(result))
                     : absl::StrFormat("%s: TTFT mean %.0f ms, longest %.0f ms", panel.name,
                                       MeanTtftMs(result), LastTtftMs(result));
    plot.caption = caption;
    for (const PlotSpan& span : plot.spans) end = std::max(end, span.end);
    figure->plots.push_back(std::move(plot));
  }
  for (size_t i = first; i < figure->plots.size(); ++i) figure->plots[i].x_max = end;
}

}  // namespace

Figure Figure2(FigureRuns& runs) {
  Figure figure{"2", "One request with two pictures: what part of it is encoding", {}, {}};
  const struct {
    const char* name;
    int64_t tokens;
  } pictures[] = {{"720p", 1196}, {"1080p", 2691}, {"1440p", 4641}, {"2160p", 10549}};
  const std::vector<std::pair<std::string, std::string>> systems = {
      {"colocated", "TP4"}, {"colocated", "PP4"}, {"colocated", "PP5"}};
  // The tower alone, and with the host's preparation of the pictures.
  const auto share = [&](const std::string& calibration, const std::string& layout, int64_t tokens,
                         bool host, double* encode_s, double* rest_s) {
    const SimConfig config = Named("colocated", layout, calibration);
    const SimRequest request = Request(0, {tokens, tokens}, 1000);
    const SimResult result = runs.Trace(config, {request});
    const CostModel cost(config.model, config.hardware, config.calibration);
    double encode = 0;
    for (const SimSpan& span : result.spans) {
      if (span.kind == SimSpan::Kind::kEncode) encode += Ms(span.end_ns - span.begin_ns);
    }
    if (host) encode += 2 * Ms(cost.HostNs(tokens));
    const double all = LastTtftMs(result);
    if (encode_s != nullptr) *encode_s = encode * 1e-3;
    if (rest_s != nullptr) *rest_s = (all - encode) * 1e-3;
    return encode / all;
  };
  Plot plot;
  plot.kind = Plot::Kind::kBars;
  plot.id = "fig2";
  plot.title = "Figure 2: latency of one request with two pictures";
  plot.x_label = "size of the pictures, layout";
  plot.y_label = "seconds";
  plot.series = {{"encoding, preparation included", {kEncodeColour, 0}, {}, {}},
                 {"prefill and the rest", {kPrefillColour, 0}, {}, {}}};
  for (const auto& picture : pictures) {
    for (const auto& [scheme, layout] : systems) {
      double encode = 0, rest = 0;
      const double part =
          share(runs.options().calibration, layout, picture.tokens, true, &encode, &rest);
      plot.categories.push_back(absl::StrCat(picture.name, "\n", layout));
      plot.series[0].y.push_back(encode);
      plot.series[1].y.push_back(rest);
      plot.notes.push_back(absl::StrFormat("%.0f %%", 100 * part));
    }
  }
  plot.caption = absl::StrCat(
      "Qwen2.5-VL-72B, 1000 tokens of text, alone on the machine, encoder on the first stage. "
      "Above each bar the part that encoding takes. One request: mean and 99th percentile are the "
      "same. Simulated, calibration ",
      runs.options().calibration, ".");
  figure.plots.push_back(std::move(plot));
  for (const bool host : {false, true}) {
    figure.comparisons.push_back(Compare(
        absl::StrCat("largest part of encoding, 720p to 2160p, TP4 and PP4, ",
                     host ? "preparation included" : "vision tower alone"),
        "up to 26 %", 0.26,
        [&](const std::string& cal) {
          double most = 0;
          for (const auto& picture : pictures) {
            for (const char* layout : {"TP4", "PP4"}) {
              most = std::max(most, share(cal, layout, picture.tokens, host, nullptr, nullptr));
            }
          }
          return most;
        },
        host ? "the paper does not say whether the host's part is counted, nor how much text "
               "there is"
             : ""));
    figure.comparisons.back().share = true;
  }
  return figure;
}

Figure Figure5(FigureRuns& runs) {
  Figure figure{"5", "Vanilla and chunked pipeline parallelism", {}, {}};
  const std::string cal = runs.options().calibration;
  const std::vector<SimRequest> requests = {Request(0, {}, 8192)};
  SimConfig vanilla = Named("colocated", "PP4", cal);
  vanilla.policy.one_chunk_in_flight = true;
  AddTimelines(runs,
               {{"fig5_vanilla", "vanilla PP4", vanilla},
                {"fig5_chunked", "chunked PP4", Named("colocated", "PP4", cal)},
                {"fig5_chunked_pp5", "chunked PP5", Named("colocated", "PP5", cal)}},
               requests,
               absl::StrCat("One text request of 8192 tokens in chunks of 2048. Simulated, "
                            "calibration ",
                            cal, "."),
               &figure);
  figure.comparisons.push_back(Compare(
      "chunked over vanilla, TTFT", "lower", kNoNumber,
      [&](const std::string& calibration) {
        SimConfig config = Named("colocated", "PP4", calibration);
        const double chunked = LastTtftMs(runs.Trace(config, requests));
        config.policy.one_chunk_in_flight = true;
        return Change(LastTtftMs(runs.Trace(config, requests)), chunked);
      },
      "7 steps of a chunk instead of 16: at most -56 %"));
  return figure;
}

Figure Figure7(FigureRuns& runs) {
  Figure figure{"7", "Two requests under each way of coordinating", {}, {}};
  const std::string cal = runs.options().calibration;
  const std::vector<int64_t> items(4, 1369);
  const std::vector<SimRequest> requests = {Request(0, items, 1000),
                                            Request(100'000'000, items, 1000)};
  const auto ttft = [&](const std::string& scheme, const std::string& layout) {
    return [&, scheme, layout](const std::string& calibration) {
      return Change(MeanTtftMs(runs.Trace(Named("colocated", "PP2", calibration, "7b"), requests)),
                    MeanTtftMs(runs.Trace(Named(scheme, layout, calibration, "7b"), requests)));
    };
  };
  AddTimelines(
      runs,
      {{"fig7_colocated", "colocated PP2", Named("colocated", "PP2", cal, "7b")},
       {"fig7_epd", "epd TP1+E1", Named("epd", "TP1+E1", cal, "7b")},
       {"fig7_rserve", "rserve TP1+E1", Named("rserve", "TP1+E1", cal, "7b")},
       {"fig7_adaptive", "adaptive TP1+E1", Named("adaptive", "TP1+E1", cal, "7b")},
       {"fig7_adaptive_pp2", "adaptive PP2", Named("adaptive", "PP2", cal, "7b")}},
      requests,
      absl::StrCat("Qwen2.5-VL-7B, two devices each. Two requests of 4 pictures (1369 "
                   "tokens) and 1000 tokens of text, 100 ms apart; lighter: the first. Orange "
                   "(and an E before the number of the request): encoding, blue: prefill. Under "
                   "epd and rserve the encoder's worker prepares the pictures too. Simulated, "
                   "calibration ",
                   cal, "."),
      &figure);
  figure.comparisons.push_back(Compare("epd over vanilla, mean TTFT", "lower (drawing)", kNoNumber,
                                       ttft("epd", "TP1+E1"),
                                       "the drawing has no numbers; here the encoder's worker "
                                       "prepares the pictures, one after another, which the "
                                       "drawing leaves out and a co-located engine does on host "
                                       "cores"));
  figure.comparisons.push_back(Compare("intra-request parallelism over vanilla, mean TTFT",
                                       "lowest (drawing)", kNoNumber, ttft("rserve", "TP1+E1"),
                                       "as above; adaptive prepares on host cores"));
  return figure;
}

Figure Figure10(FigureRuns& runs) {
  Figure figure{"10", "One request in the pipeline, and tokens of many", {}, {}};
  const std::string cal = runs.options().calibration;
  std::vector<SimRequest> requests;
  for (int64_t i = 0; i < 4; ++i) {
    requests.push_back(Request(i * 50'000'000, std::vector<int64_t>(2, 1000), 600));
  }
  AddTimelines(runs,
               {{"fig10_intra", "rserve_intra PP4+E1", Named("rserve_intra", "PP4+E1", cal)},
                {"fig10_rserve", "rserve PP4+E1", Named("rserve", "PP4+E1", cal)},
                {"fig10_colocated", "colocated PP5", Named("colocated", "PP5", cal)},
                {"fig10_adaptive", "adaptive PP5", Named("adaptive", "PP5", cal)}},
               requests,
               absl::StrCat("Four requests of 2 pictures (1000 tokens) and 600 tokens of text, 50 "
                            "ms apart; the number is that of a micro-batch's first request. "
                            "Orange: encoding, blue: prefill. Simulated, calibration ",
                            cal, "."),
               &figure);
  figure.comparisons.push_back(Compare(
      "rserve over rserve_intra, mean TTFT", "lower (drawing)", kNoNumber,
      [&](const std::string& calibration) {
        return Change(
            MeanTtftMs(runs.Trace(Named("rserve_intra", "PP4+E1", calibration), requests)),
            MeanTtftMs(runs.Trace(Named("rserve", "PP4+E1", calibration), requests)));
      },
      "the drawing has no numbers"));
  return figure;
}

Figure Figure15(FigureRuns&) {
  Figure figure{"15", "Lengths of the prompts", {}, {}};
  for (const bool large : {false, true}) {
    WorkloadSpec spec;
    spec.kind = large ? WorkloadKind::kMmmu2k : WorkloadKind::kMmmu1k;
    spec.requests = 20000;
    const std::vector<SimRequest> requests = DrainSource(*MakeSource(spec));
    constexpr int64_t kBin = 1000;
    constexpr size_t kBins = 30;
    Plot plot;
    plot.id = large ? "fig15_2k" : "fig15_1k";
    plot.title = absl::StrCat("Figure 15, ", large ? "2K" : "1K", ": tokens of a request");
    plot.x_label = "tokens (middle of bins of 1000)";
    plot.y_label = "per cent of the requests";
    plot.series = {{"all of the prompt", {4, 0}, {}, {}}, {"of pictures", {6, 1}, {}, {}}};
    double all = 0, pictures = 0;
    std::vector<double> prompts(kBins), multimodal(kBins);
    const double each = 100 / static_cast<double>(requests.size());
    for (const SimRequest& request : requests) {
      int64_t tokens = 0;
      for (const SimItem& item : request.items) tokens += item.tokens;
      all += static_cast<double>(request.prompt_tokens);
      pictures += static_cast<double>(tokens);
      prompts[std::min(kBins - 1, static_cast<size_t>(request.prompt_tokens / kBin))] += each;
      multimodal[std::min(kBins - 1, static_cast<size_t>(tokens / kBin))] += each;
    }
    for (size_t bin = 0; bin < kBins; ++bin) {
      const double x = (static_cast<double>(bin) + 0.5) * kBin;
      for (PlotSeries& series : plot.series) series.x.push_back(x);
      plot.series[0].y.push_back(prompts[bin]);
      plot.series[1].y.push_back(multimodal[bin]);
    }
    plot.caption =
        "20000 generated requests: 1 + Poisson(4) pictures, their tokens and the text lognormal. "
        "The paper's data set is not part of this project. No system is involved.";
    figure.plots.push_back(std::move(plot));
    const double count = static_cast<double>(requests.size());
    const std::string at = large ? "2K" : "1K";
    figure.comparisons.push_back(Compare(
        absl::StrCat(at, ": mean tokens of a prompt"), large ? "12k" : "8k", large ? 12000 : 8000,
        [&](const std::string&) { return all / count; }, "", false));
    figure.comparisons.push_back(Compare(
        absl::StrCat(at, ": mean tokens of pictures"), large ? "9k" : "5k", large ? 9000 : 5000,
        [&](const std::string&) { return pictures / count; }, "", false));
  }
  return figure;
}

}  // namespace rserve::sim
