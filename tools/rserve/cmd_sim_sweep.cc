// rserve sim sweep, rserve sim plan.

#include <algorithm>
#include <cstdio>
#include <optional>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "tools/rserve/files.h"
#include "tools/rserve/progress.h"
#include "tools/rserve/sim_flags.h"
#include "tools/rserve/text.h"

namespace rserve::tool {
namespace {

constexpr CommandText kSweepText = {
    "sim sweep", "Simulates several schemes at several rates. A case is SCHEME or SCHEME@LAYOUT.\n",
    "  rserve sim sweep --cases rserve,epd,colocated@PP4,colocated@PP5,adaptive@PP5\n"
    "  rserve sim sweep --rates 0.5,1,1.5 --seeds 1,2,3 --csv out.csv\n"};

constexpr CommandText kPlanText = {
    "sim plan",
    "Ranks the layouts of a number of devices for a workload: those that hold the model's "
    "weights,\n"
    "under every scheme that suits them; first those that meet the SLO for the most requests.\n",
    "  rserve sim plan --devices 5 --rate 1.2 --slo 5\n"
    "  rserve sim plan --model 7b --hardware a100-40g --devices 2 --workload tiny-items --rate "
    "3\n"};

template <typename T, typename Parse>
absl::StatusOr<std::vector<T>> ParseList(const char* option, const std::vector<std::string>& texts,
                                         Parse parse) {
  std::vector<T> values;
  for (const std::string& text : texts) {
    T value = 0;
    if (!parse(text, &value) || !(value >= 0)) {
      return absl::InvalidArgumentError(
          absl::StrCat("--", option, ": \"", text, "\" is no number of at least 0"));
    }
    values.push_back(value);
  }
  return values;
}

absl::StatusOr<std::vector<uint64_t>> ParseSeeds(const std::vector<std::string>& texts) {
  return ParseList<uint64_t>("seeds", texts, [](const std::string& text, uint64_t* value) {
    return absl::SimpleAtoi(text, value);
  });
}

std::string Attainment(double share, double slo_s) {
  return slo_s > 0 ? FormatPercent(share) : "-";
}

std::vector<std::string> PointRow(const std::string& name, double rate, double slo_s,
                                  const sim::Point& p) {
  const sim::Summary& s = p.summary;
  return {name,
          FormatFixed(rate, 3),
          FormatFixed(s.ttft_mean_s, 3),
          FormatFixed(s.ttft_p99_s, 3),
          FormatFixed(std::max(p.bounds.critical_path_s, p.bounds.shortest_s), 3),
          FormatFixed(s.tokens_per_s, 0),
          FormatFixed(p.bounds.tokens_per_s, 0),
          Attainment(s.slo_attainment, slo_s),
          FormatBytes(s.peak_embedding_bytes)};
}

}  // namespace

int SimSweepCommand(Args args) {
  SystemFlags system;
  WorkloadFlags workload;
  std::vector<std::string> cases = {"rserve",        "epd",      "colocated@PP4",
                                    "colocated@PP5", "adaptive", "adaptive@PP5"};
  std::vector<std::string> rates = {"0.4", "0.8", "1.2", "1.6"}, seeds = {"1", "2", "3", "4"};
  std::string csv;
  OptionTable table;
  table.Section("Sweep");
  table.List("cases", "CASE,...", &cases, "schemes, each with a layout if not --layout");
  table.List("rates", "R,...", &rates, "requests a second");
  table.List("seeds", "N,...", &seeds, "of the workload; results are their mean");
  AddSystemFlags(&table, &system);
  AddWorkloadFlags(&table, &workload);
  table.Section("Output");
  table.String("csv", "FILE", &csv, "the table with all columns");
  if (std::optional<int> over = ParseOrHelp(kSweepText, &table, args)) return *over;

  auto rate_values = ParseList<double>("rates", rates, [](const std::string& text, double* value) {
    return absl::SimpleAtod(text, value) && *value > 0 && *value < 1e6;
  });
  if (!rate_values.ok()) return FailUsage(rate_values.status());
  auto seed_values = ParseSeeds(seeds);
  if (!seed_values.ok()) return FailUsage(seed_values.status());
  auto spec = MakeSpec(workload);
  if (!spec.ok()) return FailUsage(spec.status());

  TextTable out({"case", "rate", "TTFT mean s", "p99 s", "bound s", "tokens/s", "bound", "SLO",
                 "embeddings"});
  std::string rows =
      "case,layout,rate,ttft_mean_s,ttft_p50_s,ttft_p90_s,ttft_p99_s,critical_path_s,fcfs_bound_s,"
      "shortest_bound_s,tokens_per_s,tokens_per_s_bound,slo_attainment,peak_embedding_bytes\n";
  Progress progress("simulating");
  int64_t done = 0;
  const auto total = static_cast<int64_t>(cases.size() * rate_values->size());
  for (const std::string& one : cases) {
    const std::vector<std::string> parts = absl::StrSplit(one, absl::MaxSplits('@', 1));
    const std::string layout = parts.size() > 1 ? parts[1] : system.layout;
    auto config = MakeSystem(system, parts[0], layout, workload);
    if (!config.ok()) return FailUsage(config.status());
    for (double rate : *rate_values) {
      spec->rate = rate;
      auto point = sim::Measure(*config, *spec, *seed_values);
      if (!point.ok()) return FailUsage(point.status());
      const std::string name = absl::StrCat(parts[0], " ", layout);
      out.Row(PointRow(name, rate, config->slo_s, *point));
      const sim::Summary& s = point->summary;
      absl::StrAppendFormat(
          &rows, "%s,%s,%.6f,%.9f,%.9f,%.9f,%.9f,%.9f,%.9f,%.9f,%.3f,%.3f,%.6f,%d\n", parts[0],
          layout, rate, s.ttft_mean_s, s.ttft_p50_s, s.ttft_p90_s, s.ttft_p99_s,
          point->bounds.critical_path_s, point->bounds.fcfs_s, point->bounds.shortest_s,
          s.tokens_per_s, point->bounds.tokens_per_s, s.slo_attainment, s.peak_embedding_bytes);
      progress.Update(++done, total);
    }
  }
  progress.Finish();
  std::printf("%s\nsimulated; bound s: no policy has a smaller mean on that layout\n",
              out.ToString().c_str());
  if (csv.empty()) return kExitOk;
  const absl::Status status = WriteFile(csv, rows);
  return status.ok() ? kExitOk : Fail(status);
}

int SimPlanCommand(Args args) {
  SystemFlags system;
  WorkloadFlags workload;
  int64_t devices = 5, show = 10;
  std::vector<std::string> seeds = {"1", "2"};
  OptionTable table;
  table.Section("Plan");
  table.Int("devices", "N", 1, 64, &devices, "how many there are");
  table.Int("show", "N", 1, 1000, &show, "how many layouts to list");
  table.List("seeds", "N,...", &seeds, "of the workload; results are their mean");
  AddSystemFlags(&table, &system);
  AddWorkloadFlags(&table, &workload);
  if (std::optional<int> over = ParseOrHelp(kPlanText, &table, args)) return *over;
  auto seed_values = ParseSeeds(seeds);
  if (!seed_values.ok()) return FailUsage(seed_values.status());
  auto spec = MakeSpec(workload);
  if (!spec.ok()) return FailUsage(spec.status());

  struct Candidate {
    std::string name;
    sim::Point point;
    size_t busiest = 0;
  };
  std::vector<Candidate> found;
  int64_t too_large = 0;
  std::vector<std::string> cases;
  for (int64_t encoders = 0; encoders < devices; ++encoders) {
    const int64_t left = devices - encoders;
    const std::string with = encoders > 0 ? absl::StrCat("+E", encoders) : "";
    const std::vector<std::string> schemes =
        encoders > 0 ? std::vector<std::string>{"rserve", "epd", "adaptive"}
                     : std::vector<std::string>{"colocated", "adaptive"};
    for (const std::string& scheme : schemes) {
      if (left > 1) cases.push_back(absl::StrCat(scheme, "@PP", left, with));
      cases.push_back(absl::StrCat(scheme, "@TP", left, with));
    }
  }
  Progress progress("simulating");
  for (size_t i = 0; i < cases.size(); ++i) {
    progress.Update(static_cast<int64_t>(i), static_cast<int64_t>(cases.size()));
    const std::vector<std::string> parts = absl::StrSplit(cases[i], '@');
    auto config = MakeSystem(system, parts[0], parts[1], workload);
    if (!config.ok()) return FailUsage(config.status());
    // A fifth stays for KV, activations and, on a shared device, the vision tower.
    const double weights = 2.0 * static_cast<double>(sim::MatmulParams(config->model.language));
    const int32_t shards = config->layout.stages * config->layout.ranks;
    if (config->model.language.kv_heads % config->layout.ranks != 0) continue;
    if (weights / shards > 0.8 * config->hardware.memory_gb * 1e9) {
      ++too_large;
      continue;
    }
    auto point = sim::Measure(*config, *spec, *seed_values);
    if (!point.ok()) continue;  // more stages than layers
    const auto& use = point->summary.utilisation;
    const auto busiest =
        static_cast<size_t>(std::max_element(use.begin(), use.end()) - use.begin());
    found.push_back({absl::StrCat(parts[0], " ", parts[1]), *std::move(point), busiest});
  }
  progress.Finish();
  std::stable_sort(found.begin(), found.end(), [](const Candidate& a, const Candidate& b) {
    const sim::Summary &x = a.point.summary, &y = b.point.summary;
    if (x.slo_attainment != y.slo_attainment) return x.slo_attainment > y.slo_attainment;
    return x.ttft_mean_s < y.ttft_mean_s;
  });
  TextTable out({"layout", "SLO", "TTFT mean s", "p99 s", "bound s", "tokens/s", "at most",
                 "busiest worker"});
  for (size_t i = 0; i < found.size() && static_cast<int64_t>(i) < show; ++i) {
    const sim::Summary& s = found[i].point.summary;
    const sim::Bounds& b = found[i].point.bounds;
    out.Row({found[i].name, Attainment(s.slo_attainment, system.slo_s),
             FormatFixed(s.ttft_mean_s, 3), FormatFixed(s.ttft_p99_s, 3),
             FormatFixed(std::max(b.critical_path_s, b.shortest_s), 3),
             FormatFixed(s.tokens_per_s, 0), FormatFixed(b.tokens_per_s, 0),
             absl::StrCat(found[i].busiest, ", ", FormatPercent(s.utilisation[found[i].busiest]))});
  }
  std::printf(
      "%s\nsimulated; %d layouts left out because their weights take more than 80 %% of a "
      "device\n",
      out.ToString().c_str(), static_cast<int>(too_large));
  return found.empty() ? kExitFailure : kExitOk;
}

}  // namespace rserve::tool
