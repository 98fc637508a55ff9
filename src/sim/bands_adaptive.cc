// The adaptive scheme against the paper's, against a co-located pipeline, against fixed settings.

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "src/sim/experiment.h"
#include "src/sim/scheme.h"

namespace rserve::sim {
namespace {

constexpr double kNone = 1e9;  // no limit on that side

const std::vector<uint64_t>& Seeds() {
  static const auto& seeds = *new std::vector<uint64_t>{1, 2, 3, 4};
  return seeds;
}

WorkloadSpec Spec(WorkloadKind kind, double rate) {
  WorkloadSpec spec;
  spec.kind = kind;
  spec.rate = rate;
  spec.requests = 300;
  return spec;
}

// Configurations here are this project's own and always fit together.
Point RunPoint(const SimConfig& config, const WorkloadSpec& spec) {
  return *Measure(config, spec, Seeds());
}
Summary Run(const SimConfig& config, const WorkloadSpec& spec) {
  return RunPoint(config, spec).summary;
}

// "mean 1.10 s (no policy below 0.80), p99 2.90 s"
std::string Seconds(const Point& point) {
  return absl::StrFormat(
      "mean %.2f s (no policy below %.2f), p99 %.2f s", point.summary.ttft_mean_s,
      std::max(point.bounds.critical_path_s, point.bounds.shortest_s), point.summary.ttft_p99_s);
}

SimConfig Shared(const WorkloadSpec& spec, std::string_view layout = "PP5",
                 std::string_view model = "72b") {
  SimConfig config = MakeConfig("adaptive", layout, "b", model);
  config.layout.layers = BalancedLayers(config, spec);
  return config;
}

class Table {
 public:
  Table(const ProgressFn& progress, int64_t total) : progress_(progress), total_(total) {}
  void Add(std::string what, double value, double low, double high, std::string note = "") {
    bands_.push_back({std::move(what), "b", value, low, high, std::move(note)});
    if (progress_) progress_(std::min(static_cast<int64_t>(bands_.size()), total_), total_);
  }
  std::vector<Band> Take() { return std::move(bands_); }

 private:
  const ProgressFn& progress_;
  const int64_t total_;
  std::vector<Band> bands_;
};

struct Target {
  double load;
  double shared;  // change of the mean TTFT, at most
  double held;    // the same with the layout kept at PP4+E1
};
constexpr Target kTargets[] = {
    {0.3, -0.20, -0.12}, {0.7, -0.20, -0.10}, {0.9, -0.35, -0.05},
    {1.1, -0.60, -0.08}, {1.5, -0.50, -0.08},
};

void AgainstPaper(WorkloadKind kind, Table* table) {
  const std::string at = kind == WorkloadKind::kMmmu2k ? "2K" : "1K";
  const SimConfig rserve = MakeConfig("rserve", "PP4+E1", "b");
  const SimConfig colocated = MakeConfig("colocated", "PP5", "b");
  const SimConfig held = MakeConfig("adaptive", "PP4+E1", "b");
  const SimConfig shared = Shared(Spec(kind, 1));
  const double capacity = *Capacity(rserve, Spec(kind, 1), Seeds());
  for (const Target& target : kTargets) {
    const WorkloadSpec spec = Spec(kind, target.load * capacity);
    const std::string where = absl::StrCat(at, " at load ", target.load);
    const Point base_point = RunPoint(rserve, spec), ours_point = RunPoint(shared, spec);
    const Point kept_point = RunPoint(held, spec), other_point = RunPoint(colocated, spec);
    const Summary &base = base_point.summary, &ours = ours_point.summary;
    const Summary &kept = kept_point.summary, &other = other_point.summary;
    table->Add(absl::StrCat(where, ": adaptive PP5 over rserve, mean"),
               ours.ttft_mean_s / base.ttft_mean_s - 1, -1, target.shared,
               absl::StrCat(Seconds(ours_point), " against ", Seconds(base_point)));
    table->Add(absl::StrCat(where, ": adaptive PP5 over rserve, p99"),
               ours.ttft_p99_s / base.ttft_p99_s - 1, -1, 0.2);
    table->Add(absl::StrCat(where, ": adaptive PP5 over colocated PP5, mean"),
               ours.ttft_mean_s / other.ttft_mean_s - 1, -1, 0, Seconds(other_point));
    table->Add(absl::StrCat(where, ": adaptive PP4+E1 over rserve, mean"),
               kept.ttft_mean_s / base.ttft_mean_s - 1, -1, target.held, Seconds(kept_point));
    table->Add(absl::StrCat(where, ": adaptive PP4+E1 over rserve, p99"),
               kept.ttft_p99_s / base.ttft_p99_s - 1, -1, 0.25);
  }
  const WorkloadSpec full = Spec(kind, 3 * capacity);
  const double plateau = Run(rserve, full).tokens_per_s;
  table->Add(absl::StrCat(at, ": plateau of adaptive PP5 over rserve"),
             Run(shared, full).tokens_per_s / plateau - 1, 0.15, kNone,
             absl::StrFormat("rserve %.0f tokens/s", plateau));
  table->Add(absl::StrCat(at, ": plateau of colocated PP5 over rserve"),
             Run(colocated, full).tokens_per_s / plateau - 1, -kNone, kNone, "as many devices");

  SimConfig within = shared, first = rserve;
  within.policy.order = Order::kFeasibleFirst;
  within.policy.slo_ns = 10'000'000'000 - 20'000'000;  // less the front end
  within.slo_s = first.slo_s = 10;
  SimConfig within_held = held;
  within_held.policy = within.policy;
  within_held.slo_s = 10;
  const WorkloadSpec over = Spec(kind, 1.5 * capacity);
  const double reached = Run(first, over).slo_attainment;
  table->Add(absl::StrCat(at, " at load 1.5: requests within 10 s, adaptive PP5"),
             Run(within, over).slo_attainment, 0.70, 1,
             absl::StrFormat("rserve, first come: %.0f %%", reached * 100));
  table->Add(absl::StrCat(at, " at load 1.5: requests within 10 s, adaptive PP4+E1"),
             Run(within_held, over).slo_attainment, 0.70, 1);
}

// All costs triple in mid-run; what comes 30 requests later must be served as by a scheduler that
// never knew other costs.
void Relearn(Table* table) {
  WorkloadSpec spec = Spec(WorkloadKind::kMmmu1k, 0.3);
  spec.requests = 200;
  SimConfig changed = MakeConfig("adaptive", "PP4+E1", "b");
  changed.cost_scale = 3;
  SimConfig always = changed;
  always.scale_from_ns = 0;
  const std::vector<SimRequest> requests = DrainSource(*MakeSource(spec));
  changed.scale_from_ns = requests[100].arrival_ns;
  const auto tail = [&](const SimConfig& config) {
    auto source = MakeSource(requests);
    const SimResult result = *Simulate(config, *source);
    double sum = 0;
    for (size_t i = 130; i < result.requests.size(); ++i) {
      sum += static_cast<double>(result.requests[i].ttft_ns);
    }
    return sum;
  };
  table->Add("costs triple: TTFT 30 requests later over one that always knew",
             tail(changed) / tail(always) - 1, -0.1, 0.05);
}

struct Scenario {
  const char* name;
  WorkloadKind kind;
  ArrivalKind arrivals;
  const char* model;
  const char* layout;
  double load;
};
constexpr ArrivalKind kSteady = ArrivalKind::kPoisson;
constexpr ArrivalKind kBursts = ArrivalKind::kBursty;
constexpr Scenario kScenarios[] = {
    {"7B, one device and an encoder", WorkloadKind::kMmmu1k, kSteady, "7b", "TP1+E1", 0.5},
    {"7B, one device and an encoder", WorkloadKind::kMmmu1k, kSteady, "7b", "TP1+E1", 0.9},
    {"7B, 2K, one device and an encoder", WorkloadKind::kMmmu2k, kSteady, "7b", "TP1+E1", 0.7},
    {"32B, one device and an encoder", WorkloadKind::kMmmu1k, kSteady, "32b", "TP1+E1", 0.7},
    {"7B, tiny pictures", WorkloadKind::kTinyItems, kSteady, "7b", "TP1+E1", 0.5},
    {"7B, tiny pictures", WorkloadKind::kTinyItems, kSteady, "7b", "TP1+E1", 0.9},
    {"tiny pictures", WorkloadKind::kTinyItems, kSteady, "72b", "PP4+E1", 0.5},
    {"tiny pictures", WorkloadKind::kTinyItems, kSteady, "72b", "PP4+E1", 0.9},
    {"video", WorkloadKind::kVideo, kSteady, "72b", "PP4+E1", 0.5},
    {"video", WorkloadKind::kVideo, kSteady, "72b", "PP4+E1", 0.9},
    {"text only", WorkloadKind::kTextOnly, kSteady, "72b", "PP4+E1", 0.5},
    {"text only", WorkloadKind::kTextOnly, kSteady, "72b", "PP4+E1", 0.9},
    {"half text only", WorkloadKind::kTextMix, kSteady, "72b", "PP4+E1", 0.7},
    {"bursts of 8", WorkloadKind::kMmmu1k, kBursts, "72b", "PP4+E1", 0.3},
    {"bursts of 8", WorkloadKind::kMmmu1k, kBursts, "72b", "PP4+E1", 0.7},
    {"bursts of 8, 2K", WorkloadKind::kMmmu2k, kBursts, "72b", "PP4+E1", 0.7},
    {"heavy tail", WorkloadKind::kHeavyTail, kSteady, "72b", "PP4+E1", 0.5},
    {"heavy tail", WorkloadKind::kHeavyTail, kSteady, "72b", "PP4+E1", 0.9},
    {"two encoders", WorkloadKind::kMmmu2k, kSteady, "72b", "PP4+E2", 0.7},
    {"duplicates", WorkloadKind::kDuplicates, kSteady, "72b", "PP4+E1", 0.9},
};

// The best mean of all settings whose p99 is within the limit.
double BestFixed(const SimConfig& adaptive, const WorkloadSpec& spec, double p99_limit_s,
                 std::string* name) {
  double best = kNone;
  for (int64_t c : {int64_t{1}, int64_t{1024}, int64_t{4096}}) {
    for (int64_t b : {512, 1024, 2048, 4096, 8192}) {
      for (Order order : {Order::kArrival, Order::kShortestFirst}) {
        SimConfig config = adaptive;
        config.policy.adaptive_encode_batch = false;
        config.policy.encode_across_requests = false;
        config.policy.square_root_budget = false;
        config.policy.encode_batch_tokens = c;
        config.policy.token_budget = b;
        config.policy.order = order;
        const Summary summary = Run(config, spec);
        if (summary.ttft_p99_s > p99_limit_s || summary.ttft_mean_s >= best) continue;
        best = summary.ttft_mean_s;
        *name = absl::StrCat("C=", c, " B=", b,
                             order == Order::kArrival ? " first come" : " shortest first");
      }
    }
  }
  return best;
}

}  // namespace

std::vector<Band> AdaptiveBands(const ProgressFn& progress) {
  Table table(progress, 59);
  AgainstPaper(WorkloadKind::kMmmu1k, &table);
  AgainstPaper(WorkloadKind::kMmmu2k, &table);
  Relearn(&table);
  return table.Take();
}

std::vector<Band> ScenarioBands(const ProgressFn& progress) {
  Table table(progress, static_cast<int64_t>(std::size(kScenarios)));
  for (const Scenario& scenario : kScenarios) {
    WorkloadSpec spec = Spec(scenario.kind, 1);
    const SimConfig rserve = MakeConfig("rserve", scenario.layout, "b", scenario.model);
    const SimConfig adaptive = MakeConfig("adaptive", scenario.layout, "b", scenario.model);
    spec.rate = scenario.load * *Capacity(rserve, spec, Seeds());
    spec.arrivals = scenario.arrivals;
    const Summary base = Run(rserve, spec), ours = Run(adaptive, spec);
    std::string name;
    const double limit = std::max(1.25 * base.ttft_p99_s, ours.ttft_p99_s);
    const double best = BestFixed(adaptive, spec, limit, &name);
    table.Add(absl::StrCat(scenario.name, ", load ", scenario.load,
                           ": adaptive over the best fixed setting, mean"),
              ours.ttft_mean_s / best - 1, -1, 0.05,
              absl::StrFormat("%.2f s, p99 %.2f s (rserve %.2f, %.2f); best: %s", ours.ttft_mean_s,
                              ours.ttft_p99_s, base.ttft_mean_s, base.ttft_p99_s, name));
  }
  return table.Take();
}

std::vector<StretchPoint> StretchCurve(const ProgressFn& progress) {
  std::vector<StretchPoint> points;
  for (WorkloadKind kind : {WorkloadKind::kMmmu1k, WorkloadKind::kMmmu2k}) {
    const SimConfig rserve = MakeConfig("rserve", "PP4+E1", "b");
    const double capacity = *Capacity(rserve, Spec(kind, 1), Seeds());
    for (double load : {0.7, 0.9, 1.1}) {
      const WorkloadSpec spec = Spec(kind, load * capacity);
      const Summary base = Run(rserve, spec);
      for (const char* layout : {"PP5", "PP4+E1"}) {
        for (int64_t stretch : {0, 2, 4, 8, 16, 32, 64}) {
          SimConfig config = Shared(spec, layout);
          config.policy.order_stretch = stretch;
          config.policy.order_guard_ns = 60'000'000'000;
          const Summary ours = Run(config, spec);
          points.push_back({stretch, layout, std::string(WorkloadKindName(kind)), load,
                            ours.ttft_mean_s, ours.ttft_p99_s, base.ttft_mean_s, base.ttft_p99_s});
          if (progress) progress(static_cast<int64_t>(points.size()), 84);
        }
      }
    }
  }
  return points;
}

}  // namespace rserve::sim
