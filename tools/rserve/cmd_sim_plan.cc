// rserve sim plan.

#include <algorithm>
#include <cstdio>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/rserve/files.h"
#include "tools/rserve/progress.h"
#include "tools/rserve/sim_flags.h"
#include "tools/rserve/text.h"

namespace rserve::tool {
namespace {

constexpr CommandText kText = {
    "sim plan",
    "Ranks the layouts of a number of devices for a workload: those that hold the model's "
    "weights,\n"
    "under every scheme that suits them; first those that meet the SLO for the most requests, "
    "then\n"
    "those with the smallest mean. The last two columns say why: which worker is the busiest, and\n"
    "how much of the mean is waiting for other requests and for parts of the own one.\n",
    "  rserve sim plan --devices 5 --rate 1.2 --slo 5\n"
    "  rserve sim plan --devices 4 --requests-file day.jsonl --slo 2\n"
    "  rserve sim plan --model 7b --hardware a100-40g --devices 2 --workload tiny-items --rate "
    "3\n"};

// What stays of a device's memory for KV, activations and, on a shared device, the vision tower.
constexpr double kMostWeights = 0.8;

struct Candidate {
  SimCase sim_case;
  sim::Layout layout;
  sim::Point point;
};

std::vector<SimCase> Cases(int64_t devices) {
  std::vector<SimCase> cases;
  for (int64_t encoders = 0; encoders < devices; ++encoders) {
    const int64_t left = devices - encoders;
    const std::string with = encoders > 0 ? absl::StrCat("+E", encoders) : "";
    const std::vector<std::string> schemes =
        encoders > 0 ? std::vector<std::string>{"rserve", "epd", "adaptive"}
                     : std::vector<std::string>{"colocated", "adaptive"};
    for (const std::string& scheme : schemes) {
      if (left > 1) cases.push_back({scheme, absl::StrCat("PP", left, with)});
      cases.push_back({scheme, absl::StrCat("TP", left, with)});
    }
  }
  return cases;
}

// Whether the model can be laid out so: layers for all stages, heads for all ranks.
bool Divides(const sim::SimConfig& config) {
  const sim::LanguageShape& language = config.model.language;
  return language.kv_heads % config.layout.ranks == 0 && language.layers >= config.layout.stages;
}

// On the device with the most of them.
bool WeightsFit(const sim::SimConfig& config) {
  const sim::Layout& layout = config.layout;
  const int64_t all = config.model.language.layers;
  const int64_t most = layout.layers.empty()
                           ? sim::EvenLayers(all, layout.stages).front()
                           : *std::max_element(layout.layers.begin(), layout.layers.end());
  const double bytes = 2.0 * static_cast<double>(sim::MatmulParams(config.model.language));
  const double share = static_cast<double>(most) / static_cast<double>(all * layout.ranks);
  return bytes * share <= kMostWeights * config.hardware.memory_gb * 1e9;
}

std::string Busiest(const Candidate& candidate) {
  const std::vector<double>& use = candidate.point.summary.utilisation;
  if (use.empty()) return "-";
  const auto worker = std::max_element(use.begin(), use.end()) - use.begin();
  const int64_t encoder = worker - candidate.layout.stages;
  std::string name = absl::StrCat("stage ", worker);
  if (encoder >= 0) {
    name = candidate.layout.encoders > 1 ? absl::StrCat("encoder ", encoder) : "encoder";
  } else if (worker == 0 && candidate.layout.encoders == 0) {
    name = "stage 0, encoder";
  }
  return absl::StrCat(name, " ", FormatPercent(use[static_cast<size_t>(worker)]));
}

std::vector<std::string> Row(const Candidate& candidate, double slo_s) {
  const sim::Summary& s = candidate.point.summary;
  const sim::Bounds& b = candidate.point.bounds;
  std::vector<std::string> row = {candidate.sim_case.Name(),
                                  slo_s > 0 ? FormatPercent(s.slo_attainment) : "-",
                                  TtftCell(s.ttft_mean_s, s), TtftCell(s.ttft_p99_s, s)};
  for (const std::string& cell : BoundCells(b)) row.push_back(cell);
  row.push_back(FormatFixed(s.tokens_per_s, 0));
  row.push_back(FormatFixed(b.tokens_per_s, 0));
  row.push_back(Busiest(candidate));
  row.push_back(FormatFixed(s.ttft_mean_s - b.critical_path_s, 3));
  return row;
}

}  // namespace

int SimPlanCommand(Args args) {
  SystemFlags system;
  WorkloadFlags workload;
  int64_t devices = 5, show = 10;
  std::vector<std::string> seeds = {"1", "2"};
  OptionTable table;
  table.Section("Plan");
  table.Int("devices", "N", 1, 64, &devices, "how many there are");
  table.Int("show", "N", 1, 1000, &show, "how many layouts to list");
  table.List("seeds", "N,...", &seeds, "of a generated workload; results are their mean");
  AddSystemFlags(&table, &system, {"scheme", "layout", "layers"});
  AddWorkloadFlags(&table, &workload, {"seed"});
  if (std::optional<int> over = ParseOrHelp(kText, &table, args)) return *over;
  auto seed_values = ParseSeeds(seeds);
  if (!seed_values.ok()) return FailUsage(seed_values.status());
  auto traffic = MakeTraffic(workload);
  if (!traffic.ok()) return FailUsage(traffic.status());

  std::vector<Candidate> found;
  int64_t too_large = 0;
  const std::vector<SimCase> cases = Cases(devices);
  Progress progress("simulating");
  for (size_t i = 0; i < cases.size(); ++i) {
    progress.Update(static_cast<int64_t>(i), static_cast<int64_t>(cases.size()));
    auto config = MakeSystem(system, cases[i].scheme, cases[i].layout, *traffic);
    if (!config.ok()) return FailUsage(config.status());
    if (!Divides(*config)) continue;
    if (!WeightsFit(*config)) {
      ++too_large;
      continue;
    }
    auto point = traffic->recorded.has_value() ? sim::MeasureRequests(*config, *traffic->recorded)
                                               : sim::Measure(*config, traffic->spec, *seed_values);
    if (!point.ok()) return FailUsage(point.status());
    const sim::Summary& summary = point->summary;
    if (summary.failed == summary.requests) return FailUsage(NothingFits(summary.requests));
    found.push_back({cases[i], config->layout, *std::move(point)});
  }
  progress.Finish();
  std::stable_sort(found.begin(), found.end(), [](const Candidate& a, const Candidate& b) {
    const sim::Summary &x = a.point.summary, &y = b.point.summary;
    if (x.slo_attainment != y.slo_attainment) return x.slo_attainment > y.slo_attainment;
    return x.ttft_mean_s < y.ttft_mean_s;
  });
  std::vector<std::string> headings = {"layout", "SLO", "TTFT mean s", "p99 s"};
  for (const std::string& heading : BoundHeadings()) headings.push_back(heading);
  for (const char* heading : {"tokens/s", "at most", "busiest worker", "waiting s"}) {
    headings.push_back(heading);
  }
  TextTable out(std::move(headings));
  for (size_t i = 0; i < found.size() && static_cast<int64_t>(i) < show; ++i) {
    out.Row(Row(found[i], system.slo_s));
  }
  std::printf(
      "%s\nsimulated; %d layouts left out because their weights take more than %.0f %% of a "
      "device\n",
      out.ToString().c_str(), static_cast<int>(too_large), 100 * kMostWeights);
  return found.empty() ? kExitFailure : kExitOk;
}

}  // namespace rserve::tool
