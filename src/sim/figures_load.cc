// Figures over the rate of requests: 12 to 14 and 17 to 21.

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "src/sim/figure_parts.h"

namespace rserve::sim {
namespace {

using Where = FigureRuns::Where;

constexpr double kNoNumber = std::numeric_limits<double>::quiet_NaN();
// Shares of the capacity of `rserve`; the paper goes to about 2.1.
constexpr double kLoads[] = {0.15, 0.3, 0.5, 0.7, 0.9, 1.0, 1.2, 1.5, 2.1};
constexpr char kConditions[] = " Poisson arrivals, four seeds. Simulated, calibration ";

const char* Resolution(WorkloadKind kind) { return kind == WorkloadKind::kMmmu2k ? "2K" : "1K"; }
std::string Small(WorkloadKind kind) { return kind == WorkloadKind::kMmmu2k ? "2k" : "1k"; }
constexpr WorkloadKind kBoth[] = {WorkloadKind::kMmmu1k, WorkloadKind::kMmmu2k};

template <typename Loads>
std::vector<double> Rates(FigureRuns& runs, const std::string& layout, const Where& where,
                          const Loads& loads) {
  // Those of the plots' calibration: the x axes of both are then the same.
  Where base = where;
  base.calibration = runs.options().calibration;
  const double capacity = runs.RserveCapacity(layout, base);
  std::vector<double> rates;
  for (double load : loads) rates.push_back(std::round(1000 * load * capacity) / 1000);
  return rates;
}

std::string Caption(FigureRuns& runs, const std::string& text) {
  return absl::StrCat(text, kConditions, runs.options().calibration, ".");
}

struct KnownCases {
  FigureCase vllm_tp = MakeCase("vllm", "TP4", 1);
  FigureCase vllm = MakeCase("vllm", "PP4");
  FigureCase gllm = MakeCase("colocated", "PP4");
  FigureCase epd = MakeCase("epd", "PP4+E1");
  FigureCase rserve = MakeCase("rserve", "PP4+E1");
  FigureCase gllm5 = MakeCase("colocated", "PP5", 1);
  FigureCase ours = MakeCase("adaptive", "PP4+E1");
  FigureCase ours5 = MakeCase("adaptive", "PP5", 1);
};
const KnownCases& Known() {
  static const auto& cases = *new KnownCases;
  return cases;
}

std::vector<FigureCase> MainCases() {
  return {Known().vllm_tp, Known().vllm,  Known().gllm, Known().epd,
          Known().rserve,  Known().gllm5, Known().ours, Known().ours5};
}

// The mean over the rates of the change from one case to another.
double MeanChange(FigureRuns& runs, const FigureCase& from, const FigureCase& to,
                  const Where& where, const std::vector<double>& rates, const Pick& pick) {
  double sum = 0;
  for (double rate : rates) {
    sum += Change(pick(runs.At(from, where, rate)), pick(runs.At(to, where, rate)));
  }
  return sum / static_cast<double>(rates.size());
}

double Tokens(const Summary& summary) { return summary.tokens_per_s; }
double Attained(const Summary& summary) { return summary.slo_attainment; }

double MeanOf(FigureRuns& runs, const FigureCase& one, const Where& where,
              const std::vector<double>& rates, const Pick& pick) {
  double sum = 0;
  for (double rate : rates) sum += pick(runs.At(one, where, rate));
  return sum / static_cast<double>(rates.size());
}

Where On(const std::string& calibration, WorkloadKind kind, double slo_s = 0) {
  Where where;
  where.calibration = calibration;
  where.kind = kind;
  where.slo_s = slo_s;
  return where;
}

void AddAttainment(FigureRuns& runs, const std::vector<FigureCase>& cases, const Where& where,
                   const std::vector<double>& rates, const std::string& id,
                   const std::string& title, Figure* figure) {
  Plot plot =
      CurvePlot(runs, cases, where, rates, [](const Summary& s) { return 100 * s.slo_attainment; });
  plot.id = id;
  plot.title = title;
  plot.y_label = "per cent of the requests";
  plot.y_max = 100;
  plot.caption = Caption(runs, absl::StrCat("Requests with a TTFT within ", where.slo_s, " s."));
  figure->plots.push_back(std::move(plot));
}

}  // namespace

Figure Figure12(FigureRuns& runs) {
  Figure figure{"12", "Latency of vLLM, gLLM and RServe, Qwen2.5-VL-72B on H100s", {}, {}};
  for (WorkloadKind kind : kBoth) {
    const bool large = kind == WorkloadKind::kMmmu2k;
    const std::string at = Resolution(kind);
    const std::vector<double> rates = Rates(runs, "PP4+E1", On("", kind), kLoads);
    AddTtftPlots(runs, MainCases(), On(runs.options().calibration, kind), rates,
                 absl::StrCat("fig12_", Small(kind)), absl::StrCat("Figure 12, ", at),
                 Caption(runs, absl::StrCat("TTFT over the rate, ", at,
                                            " pictures. PP5 and PP4+E1 "
                                            "have five devices, PP4 and TP4 four.")),
                 &figure);
    const auto change = [&](const FigureCase& from, const FigureCase& to,
                            const std::vector<double>& over) {
      return [&, from, to, over, kind](const std::string& cal, const Pick& pick) {
        return MeanChange(runs, from, to, On(cal, kind), over, pick);
      };
    };
    CompareTtft(
        absl::StrCat(at, ": vLLM TP4 over PP4, TTFT, at most"), "up to 3.77 x", 3.77,
        [&](const std::string& cal, const Pick& pick) {
          double most = 0;
          for (double rate : rates) {
            most = std::max(most, pick(runs.At(Known().vllm_tp, On(cal, kind), rate)) /
                                      pick(runs.At(Known().vllm, On(cal, kind), rate)));
          }
          return most;
        },
        "", &figure, false);
    CompareTtft(absl::StrCat(at, ": gLLM against vLLM PP4, TTFT"), large ? "3.8 %" : "1.6 %",
                large ? 0.038 : 0.016, change(Known().vllm, Known().gllm, rates),
                "the paper gives the size of the fluctuation, not its sign", &figure);
    CompareTtft(
        absl::StrCat(at, ": gLLM-epd over gLLM, TTFT over all rates"), large ? "-20 %" : "-16 %",
        large ? -0.20 : -0.16, change(Known().gllm, Known().epd, rates),
        "the paper's -5/-10 % at the lowest rate do not come out: there the encoder's worker "
        "prepares and encodes a picture at a time and gains nothing for a request that is alone",
        &figure);
    CompareTtft(absl::StrCat(at, ": RServe over gLLM-epd, TTFT over all rates"),
                large ? "-19 %" : "-18 %", large ? -0.19 : -0.18,
                change(Known().epd, Known().rserve, rates),
                "the gain is at low rates; with as many rates above the capacity as below, where "
                "both wait in the same queue, the mean is smaller",
                &figure);
    CompareTtft(absl::StrCat(at, ": RServe over gLLM-epd, TTFT at 0.3 of the capacity"), "",
                kNoNumber, change(Known().epd, Known().rserve, {rates[1]}), "", &figure);
    CompareTtft(absl::StrCat(at, ": colocated PP5 over RServe, TTFT at 0.3 of the capacity"), "",
                kNoNumber, change(Known().rserve, Known().gllm5, {rates[1]}),
                "five devices each; the paper compares five with four", &figure);
    CompareTtft(absl::StrCat(at, ": adaptive PP5 over RServe, TTFT over all rates"), "", kNoNumber,
                change(Known().rserve, Known().ours5, rates), "five devices each", &figure);
  }
  return figure;
}

Figure Figure13(FigureRuns& runs) {
  Figure figure{"13", "Throughput of vLLM, gLLM and RServe, Qwen2.5-VL-72B on H100s", {}, {}};
  for (WorkloadKind kind : kBoth) {
    const bool large = kind == WorkloadKind::kMmmu2k;
    const std::string at = Resolution(kind);
    const std::vector<double> rates = Rates(runs, "PP4+E1", On("", kind), kLoads);
    Plot plot = CurvePlot(runs, MainCases(), On(runs.options().calibration, kind), rates, Tokens);
    plot.id = absl::StrCat("fig13_", Small(kind));
    plot.title = absl::StrCat("Figure 13, ", at, ": throughput");
    plot.y_label = "prompt tokens a second";
    plot.caption = Caption(runs, "Prompt tokens from the first arrival to the last first token.");
    figure.plots.push_back(std::move(plot));
    const double top = rates.back();
    const auto plateau = [&](const FigureCase& from, const FigureCase& to) {
      return [&, from, to, kind, top](const std::string& cal) {
        return Change(runs.At(from, On(cal, kind), top).tokens_per_s,
                      runs.At(to, On(cal, kind), top).tokens_per_s);
      };
    };
    figure.comparisons.push_back(Compare(
        absl::StrCat(at, ": plateau of RServe, tokens/s"), large ? "11100" : "10600",
        large ? 11100 : 10600,
        [&](const std::string& cal) {
          return runs.At(Known().rserve, On(cal, kind), top).tokens_per_s;
        },
        large ? "attention makes a token of a longer prompt cost more, so 2K is above 1K only "
                "with a cost for each request (a)"
              : "",
        false));
    figure.comparisons.push_back(Compare(absl::StrCat(at, ": vLLM TP4 over PP4"),
                                         large ? "-28 %" : "-26 %", large ? -0.28 : -0.26,
                                         plateau(Known().vllm, Known().vllm_tp)));
    figure.comparisons.push_back(Compare(absl::StrCat(at, ": gLLM against vLLM PP4"), "< 1.2 %",
                                         0.012, plateau(Known().vllm, Known().gllm)));
    figure.comparisons.push_back(Compare(absl::StrCat(at, ": gLLM-epd over gLLM"),
                                         large ? "+8.5 %" : "+6 %", large ? 0.085 : 0.06,
                                         plateau(Known().gllm, Known().epd)));
    figure.comparisons.push_back(Compare(absl::StrCat(at, ": colocated PP5 over RServe"), "",
                                         kNoNumber, plateau(Known().rserve, Known().gllm5),
                                         "five devices each"));
    figure.comparisons.push_back(Compare(absl::StrCat(at, ": adaptive PP5 over RServe"), "",
                                         kNoNumber, plateau(Known().rserve, Known().ours5),
                                         "five devices each"));
  }
  return figure;
}

Figure Figure14(FigureRuns& runs) {
  Figure figure{"14", "SLO attainment at 10 s, Qwen2.5-VL-72B on H100s", {}, {}};
  for (WorkloadKind kind : kBoth) {
    const bool large = kind == WorkloadKind::kMmmu2k;
    const std::string at = Resolution(kind);
    const std::vector<double> rates = Rates(runs, "PP4+E1", On("", kind), kLoads);
    AddAttainment(
        runs,
        {Known().gllm, Known().epd, Known().rserve, Known().gllm5, Known().ours, Known().ours5},
        On(runs.options().calibration, kind, 10), rates, absl::StrCat("fig14_", Small(kind)),
        absl::StrCat("Figure 14, ", at, ": TTFT within 10 s"), &figure);
    const auto mean = [&](const FigureCase& one) {
      return [&, one, kind](const std::string& cal) {
        return MeanOf(runs, one, On(cal, kind, 10), rates, Attained);
      };
    };
    figure.comparisons.push_back(Compare(absl::StrCat(at, ": gLLM-epd, mean attainment"),
                                         large ? "59 %" : "61 %", large ? 0.59 : 0.61,
                                         mean(Known().epd),
                                         "a mean over the rates, and the paper does not say "
                                         "which they are"));
    figure.comparisons.back().share = true;
    figure.comparisons.push_back(Compare(absl::StrCat(at, ": RServe, mean attainment"),
                                         large ? "70 %" : "71 %", large ? 0.70 : 0.71,
                                         mean(Known().rserve)));
    figure.comparisons.back().share = true;
    figure.comparisons.push_back(Compare(
        absl::StrCat(at, ": RServe over gLLM-epd, area"), "+23 %", 0.23,
        [&](const std::string& cal) {
          return Change(MeanOf(runs, Known().epd, On(cal, kind, 10), rates, Attained),
                        MeanOf(runs, Known().rserve, On(cal, kind, 10), rates, Attained));
        },
        "can't be had: first come, first served and above the capacity both wait in the same "
        "queue, and what RServe is faster at low load (0.4 to 0.8 s) is a small part of the 10 s; "
        "it would need 4 to 5 % more capacity than gLLM-epd, which the paper does not report"));
    figure.comparisons.push_back(
        Compare(absl::StrCat(at, ": adaptive PP5 over RServe, area"), "", kNoNumber,
                [&](const std::string& cal) {
                  return Change(MeanOf(runs, Known().rserve, On(cal, kind, 10), rates, Attained),
                                MeanOf(runs, Known().ours5, On(cal, kind, 10), rates, Attained));
                }));
  }
  return figure;
}

Figure Figure17(FigureRuns& runs) {
  Figure figure{"17", "RServe against RServe-intra, above the capacity", {}, {}};
  constexpr double kAbove[] = {1.0, 1.2, 1.4, 1.7, 2.1};
  const FigureCase intra = MakeCase("rserve_intra", "PP4+E1");
  for (WorkloadKind kind : kBoth) {
    const std::string at = Resolution(kind);
    const Where where = On(runs.options().calibration, kind);
    const std::vector<double> rates = Rates(runs, "PP4+E1", where, kAbove);
    const std::vector<FigureCase> cases = {intra, Known().rserve, Known().gllm5, Known().ours5};
    AddTtftPlots(runs, cases, where, rates, absl::StrCat("fig17_", Small(kind), "_ttft"),
                 absl::StrCat("Figure 17, ", at),
                 Caption(runs, "rserve_intra has one request in the pipeline at a time."), &figure);
    Plot plot = CurvePlot(runs, cases, where, rates, Tokens);
    plot.id = absl::StrCat("fig17_", Small(kind), "_throughput");
    plot.title = absl::StrCat("Figure 17, ", at, ": throughput");
    plot.y_label = "prompt tokens a second";
    plot.caption = Caption(runs, "The same runs.");
    figure.plots.push_back(std::move(plot));
    figure.comparisons.push_back(Compare(
        absl::StrCat(at, ": RServe-intra over RServe, throughput"), "-32 %", -0.32,
        [&](const std::string& cal) {
          return MeanChange(runs, Known().rserve, intra, On(cal, kind), rates, Tokens);
        },
        "B = 2048; the larger B, the more it loses"));
    CompareTtft(
        absl::StrCat(at, ": RServe-intra over RServe, TTFT over all rates"), "+172 %", 1.72,
        [&](const std::string& cal, const Pick& pick) {
          return MeanChange(runs, Known().rserve, intra, On(cal, kind), rates, pick);
        },
        "depends on the rates: the nearer to the capacity, the larger", &figure);
  }
  return figure;
}

Figure Figure18(FigureRuns& runs) {
  Figure figure{"18", "With tensor parallelism: latency, Qwen2.5-VL-72B on H100s", {}, {}};
  const FigureCase tp = MakeCase("colocated", "TP4", 2), epd = MakeCase("epd", "TP4+E1", 1);
  const FigureCase rserve = MakeCase("rserve", "TP4+E1", 1);
  constexpr double kTpLoads[] = {0.15, 0.3, 0.5, 0.7, 0.9, 1.1, 1.4};
  for (WorkloadKind kind : kBoth) {
    const std::string at = Resolution(kind);
    const std::vector<double> rates = Rates(runs, "TP4+E1", On("", kind), kTpLoads);
    AddTtftPlots(runs, {tp, epd, rserve, Known().rserve, Known().gllm5, Known().ours5},
                 On(runs.options().calibration, kind), rates, absl::StrCat("fig18_", Small(kind)),
                 absl::StrCat("Figure 18, ", at),
                 Caption(runs,
                         "Rates are shares of the capacity of rserve TP4+E1. 64 heads do not "
                         "split over five ranks: the pipeline PP5 stands for five devices."),
                 &figure);
    CompareTtft(
        absl::StrCat(at, ": RServe TP4+E1 over gLLM-epd, TTFT, least gain at any rate"),
        "lower at every rate", kNoNumber,
        [&](const std::string& cal, const Pick& pick) {
          double worst = -1;
          for (double rate : rates) {
            worst = std::max(worst, MeanChange(runs, epd, rserve, On(cal, kind), {rate}, pick));
          }
          return worst;
        },
        "", &figure);
    CompareTtft(
        absl::StrCat(at, ": gLLM-epd over gLLM, TP4, TTFT at the lowest rate"), "not always a gain",
        kNoNumber,
        [&](const std::string& cal, const Pick& pick) {
          return MeanChange(runs, tp, epd, On(cal, kind), {rates[0]}, pick);
        },
        "", &figure);
  }
  return figure;
}

Figure Figure19(FigureRuns& runs) {
  Figure figure{"19", "Strict SLO: attainment, Qwen2.5-VL-72B on H100s", {}, {}};
  const FigureCase epd = MakeCase("epd", "TP4+E1", 1), rserve = MakeCase("rserve", "TP4+E1", 1);
  constexpr double kStrict[] = {0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 1.0};
  for (WorkloadKind kind : kBoth) {
    const bool large = kind == WorkloadKind::kMmmu2k;
    const std::string at = Resolution(kind);
    const double slo_s = large ? 2 : 1.4;
    const std::vector<double> rates = Rates(runs, "TP4+E1", On("", kind), kStrict);
    AddAttainment(runs, {epd, rserve, Known().epd, Known().rserve, Known().gllm5, Known().ours5},
                  On(runs.options().calibration, kind, slo_s), rates,
                  absl::StrCat("fig19_", Small(kind)),
                  absl::StrCat("Figure 19, ", at, ": TTFT within ", slo_s, " s"), &figure);
    const auto area = [&](const FigureCase& from, const FigureCase& to) {
      return [&, from, to, kind, slo_s](const std::string& cal) {
        return Change(MeanOf(runs, from, On(cal, kind, slo_s), rates, Attained),
                      MeanOf(runs, to, On(cal, kind, slo_s), rates, Attained));
      };
    };
    figure.comparisons.push_back(Compare(
        absl::StrCat(at, ": RServe over gLLM-epd, area, TP4+E1"), large ? "+169 %" : "+75 %",
        large ? 1.69 : 0.75, area(epd, rserve),
        "the limit lies on the steep part of the distribution, so the constants decide the size"));
    figure.comparisons.push_back(Compare(absl::StrCat(at, ": the same, PP4+E1"), "", kNoNumber,
                                         area(Known().epd, Known().rserve)));
  }
  return figure;
}

Figure Figure20(FigureRuns& runs) {
  Figure figure{"20", "One device for the language model, one for encoding", {}, {}};
  const FigureCase epd = MakeCase("epd", "TP1+E1"), rserve = MakeCase("rserve", "TP1+E1");
  const FigureCase two = MakeCase("colocated", "PP2"), ours = MakeCase("adaptive", "TP1+E1");
  const FigureCase ours2 = MakeCase("adaptive", "PP2", 1);
  constexpr double kOne[] = {0.05, 0.15, 0.3, 0.5, 0.7, 0.9, 1.1};
  for (const char* model : {"7b", "32b"}) {
    for (WorkloadKind kind : kBoth) {
      Where where = On(runs.options().calibration, kind);
      where.model = model;
      const std::string at = absl::StrCat(model, ", ", Resolution(kind));
      const std::vector<double> rates = Rates(runs, "TP1+E1", where, kOne);
      AddTtftPlots(runs, {epd, rserve, two, ours, ours2}, where, rates,
                   absl::StrCat("fig20_", model, "_", Small(kind)), absl::StrCat("Figure 20, ", at),
                   Caption(runs,
                           "Two devices each; colocated PP2 is the co-located pipeline on as "
                           "many."),
                   &figure);
      CompareTtft(
          absl::StrCat(at, ": RServe over gLLM-epd, TTFT, most at any rate"), "up to -26 %", -0.26,
          [&](const std::string& cal, const Pick& pick) {
            Where there = where;
            there.calibration = cal;
            double most = 0;
            for (double rate : rates) {
              most = std::min(most, MeanChange(runs, epd, rserve, there, {rate}, pick));
            }
            return most;
          },
          "the paper does not say which model", &figure);
    }
  }
  return figure;
}

Figure Figure21(FigureRuns& runs) {
  Figure figure{"21", "Four A100s (40 GB, PCIe), Qwen2.5-VL-32B", {}, {}};
  const FigureCase epd = MakeCase("epd", "PP3+E1"), rserve = MakeCase("rserve", "PP3+E1");
  const FigureCase ours = MakeCase("adaptive", "PP3+E1"), ours4 = MakeCase("adaptive", "PP4", 1);
  constexpr double kA100[] = {0.15, 0.3, 0.5, 0.7, 0.9, 1.1};
  for (WorkloadKind kind : kBoth) {
    Where where = On(runs.options().calibration, kind);
    where.model = "32b";
    where.hardware = "a100-40g";
    const std::string at = Resolution(kind);
    const std::vector<double> rates = Rates(runs, "PP3+E1", where, kA100);
    AddTtftPlots(runs, {Known().vllm, Known().gllm, epd, rserve, ours, ours4}, where, rates,
                 absl::StrCat("fig21_", Small(kind)), absl::StrCat("Figure 21, ", at),
                 Caption(runs,
                         "Four devices each, so colocated PP4 is the co-located pipeline on "
                         "as many. 72B does not fit four times 40 GB: this is 32B."),
                 &figure);
    const auto low = [&](const FigureCase& from, const FigureCase& to) {
      return [&, from, to, where](const std::string& cal, const Pick& pick) {
        Where there = where;
        there.calibration = cal;
        return MeanChange(runs, from, to, there, {rates[0]}, pick);
      };
    };
    CompareTtft(absl::StrCat(at, ": gLLM-epd over gLLM, TTFT at the lowest rate"),
                "no obvious gain", kNoNumber, low(Known().gllm, epd), "", &figure);
    CompareTtft(absl::StrCat(at, ": RServe over gLLM, TTFT at the lowest rate"), "the best",
                kNoNumber, low(Known().gllm, rserve),
                "near the capacity three stages are the bottleneck and gLLM on four is ahead",
                &figure);
  }
  return figure;
}

}  // namespace rserve::sim
