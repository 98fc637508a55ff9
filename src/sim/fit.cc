#include "src/sim/fit.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <map>

namespace rserve::sim {
namespace {

constexpr size_t kParts = 6;
// Of an action's speed; more would be a fit to noise.
constexpr double kMostSlowed = 0.9;
using Row = std::array<double, kParts>;

// Solves the normal equations for the parts in `used`; parts that depend on earlier ones stay 0.
Row Solve(const std::array<Row, kParts>& squares, const Row& products,
          const std::array<bool, kParts>& used) {
  std::array<std::array<double, kParts + 1>, kParts> m = {};
  std::array<bool, kParts> kept = used;
  for (size_t i = 0; i < kParts; ++i) {
    for (size_t j = 0; j < kParts; ++j) m[i][j] = squares[i][j];
    m[i][kParts] = products[i];
  }
  for (size_t p = 0; p < kParts; ++p) {
    if (!kept[p]) continue;
    // What is left of the part's own square once the earlier parts are taken out of it.
    if (m[p][p] <= 1e-6 * squares[p][p] || squares[p][p] <= 0) {
      kept[p] = false;
      continue;
    }
    for (size_t i = 0; i < kParts; ++i) {
      if (i == p || !kept[i]) continue;
      const double factor = m[i][p] / m[p][p];
      for (size_t j = 0; j <= kParts; ++j) m[i][j] -= factor * m[p][j];
    }
  }
  Row result = {};
  for (size_t p = 0; p < kParts; ++p) {
    if (kept[p]) result[p] = m[p][kParts] / m[p][p];
  }
  return result;
}

// y is about the sum of parts[i] x[i], no part below 0.
Row Fit(const std::vector<Row>& x, const std::vector<double>& y) {
  Row scale = {};
  for (const Row& row : x) {
    for (size_t i = 0; i < kParts; ++i) scale[i] = std::max(scale[i], std::fabs(row[i]));
  }
  std::array<Row, kParts> squares = {};
  Row products = {};
  std::array<bool, kParts> used = {};
  for (size_t i = 0; i < kParts; ++i) used[i] = scale[i] > 0;
  for (size_t n = 0; n < x.size(); ++n) {
    for (size_t i = 0; i < kParts; ++i) {
      if (!used[i]) continue;
      products[i] += x[n][i] / scale[i] * y[n];
      for (size_t j = 0; j < kParts; ++j) {
        if (used[j]) squares[i][j] += x[n][i] / scale[i] * (x[n][j] / scale[j]);
      }
    }
  }
  Row result = {};
  for (size_t round = 0; round < kParts; ++round) {
    result = Solve(squares, products, used);
    const size_t least =
        static_cast<size_t>(std::min_element(result.begin(), result.end()) - result.begin());
    if (result[least] >= 0) break;
    used[least] = false;
    result[least] = 0;
  }
  for (size_t i = 0; i < kParts; ++i) {
    result[i] = scale[i] > 0 ? std::max(result[i], 0.0) / scale[i] : 0;
  }
  return result;
}

// How much of some intervals, which may overlap, lies before a time.
class TimeBefore {
 public:
  void Add(TimeNs begin_ns, TimeNs end_ns) {
    begins_.values.push_back(static_cast<double>(begin_ns));
    ends_.values.push_back(static_cast<double>(end_ns));
  }
  void Freeze() {
    begins_.Freeze();
    ends_.Freeze();
  }
  double At(TimeNs at_ns) const {
    const auto at = static_cast<double>(at_ns);
    return ends_.SumCutAt(at) - begins_.SumCutAt(at);
  }

 private:
  struct Sorted {
    std::vector<double> values, sums;  // sums[i]: of the first i

    void Freeze() {
      std::sort(values.begin(), values.end());
      sums.assign(1, 0);
      for (double value : values) sums.push_back(sums.back() + value);
    }
    // The sum of min(value, at).
    double SumCutAt(double at) const {
      const auto below =
          static_cast<size_t>(std::lower_bound(values.begin(), values.end(), at) - values.begin());
      return sums[below] + at * static_cast<double>(values.size() - below);
    }
  };
  Sorted begins_, ends_;
};

SlowedBy Slowed(const Row& parts) {
  return {std::min(parts[4], kMostSlowed), std::min(parts[5], kMostSlowed)};
}

// What the parts of a cost are multiplied by for one action.
Row Parts(const ActionSample& sample) {
  const bool chunk = sample.kind == ActionSample::Kind::kStage;
  return {static_cast<double>(sample.tokens),
          1,
          chunk ? static_cast<double>(sample.pairs) : 0,
          chunk ? static_cast<double>(sample.finished) : 0,
          sample.beside_workers_ns,
          sample.beside_prepares_ns};
}

// `paces`: of each pass.
FittedCosts FitAtPaces(absl::Span<const std::vector<ActionSample>> passes,
                       const std::vector<Pace>& paces, int32_t stages) {
  const auto fit = [&](ActionSample::Kind kind, int32_t stage) {
    std::vector<Row> x;
    std::vector<double> y;
    for (size_t p = 0; p < passes.size(); ++p) {
      for (const ActionSample& sample : passes[p]) {
        if (sample.kind != kind || (stage >= 0 && sample.stage != stage)) continue;
        const double pace = kind == ActionSample::Kind::kEncode  ? paces[p].encode
                            : kind == ActionSample::Kind::kStage ? paces[p].stage
                                                                 : 1;
        Row parts = Parts(sample);
        parts[4] /= pace;
        parts[5] /= pace;
        x.push_back(parts);
        y.push_back(static_cast<double>(sample.ns) / pace);
      }
    }
    return Fit(x, y);
  };
  FittedCosts costs;
  const Row prepare = fit(ActionSample::Kind::kPrepare, -1);
  costs.prepare_token_ns = prepare[0];
  costs.prepare_ns = prepare[1];
  costs.prepare_slowed = Slowed(prepare);
  const Row encode = fit(ActionSample::Kind::kEncode, -1);
  costs.encode_token_ns = encode[0];
  costs.encode_ns = encode[1];
  costs.encode_slowed = Slowed(encode);
  for (int32_t s = 0; s < stages; ++s) {
    const Row parts = fit(ActionSample::Kind::kStage, s);
    costs.stages.push_back({parts[1], parts[0], parts[2], parts[3], Slowed(parts)});
  }
  return costs;
}

// What an action takes alone, and what of the time that it took it lost to others.
struct Explained {
  double alone_ns = 0, lost_ns = 0;
};
Explained Explain(const FittedCosts& costs, const ActionSample& sample) {
  const auto tokens = static_cast<double>(sample.tokens);
  const auto lost = [&sample](const SlowedBy& slowed) {
    return slowed.by_worker * sample.beside_workers_ns +
           slowed.by_prepare * sample.beside_prepares_ns;
  };
  switch (sample.kind) {
    case ActionSample::Kind::kPrepare:
      return {costs.prepare_ns + costs.prepare_token_ns * tokens, lost(costs.prepare_slowed)};
    case ActionSample::Kind::kEncode:
      return {costs.encode_ns + costs.encode_token_ns * tokens, lost(costs.encode_slowed)};
    case ActionSample::Kind::kStage:
      break;
  }
  if (sample.stage < 0 || static_cast<size_t>(sample.stage) >= costs.stages.size()) return {};
  const FittedStage& stage = costs.stages[static_cast<size_t>(sample.stage)];
  return {stage.fixed_ns + stage.token_ns * tokens +
              stage.pair_ns * static_cast<double>(sample.pairs) +
              stage.finished_ns * static_cast<double>(sample.finished),
          lost(stage.slowed)};
}

}  // namespace

void FindNeighbours(absl::Span<ActionSample> pass) {
  std::map<int32_t, TimeBefore> busy;  // by worker
  for (const ActionSample& sample : pass) {
    busy[sample.worker].Add(sample.begin_ns, sample.begin_ns + sample.ns);
  }
  for (auto& [worker, time] : busy) time.Freeze();
  for (ActionSample& sample : pass) {
    sample.beside_workers_ns = sample.beside_prepares_ns = 0;
    for (const auto& [worker, time] : busy) {
      double beside = time.At(sample.begin_ns + sample.ns) - time.At(sample.begin_ns);
      if (worker == sample.worker) beside -= static_cast<double>(sample.ns);
      if (worker < 0) {
        sample.beside_prepares_ns += beside;
      } else if (worker != sample.worker) {
        sample.beside_workers_ns += beside;
      }
    }
  }
}

double DecisionNs(absl::Span<const ActionSample> pass) {
  constexpr TimeNs kMost = 5'000'000;
  std::vector<TimeNs> ends;
  for (const ActionSample& sample : pass) ends.push_back(sample.begin_ns + sample.ns);
  std::sort(ends.begin(), ends.end());
  std::vector<TimeNs> gaps;
  for (const ActionSample& sample : pass) {
    const auto after = std::upper_bound(ends.begin(), ends.end(), sample.begin_ns);
    if (after == ends.begin()) continue;
    const TimeNs gap = sample.begin_ns - *(after - 1);
    if (gap <= kMost) gaps.push_back(gap);
  }
  if (gaps.empty()) return 0;
  const auto middle = gaps.begin() + static_cast<ptrdiff_t>(gaps.size() / 2);
  std::nth_element(gaps.begin(), middle, gaps.end());
  return static_cast<double>(*middle);
}

FittedCosts FitCosts(absl::Span<const std::vector<ActionSample>> passes, int32_t stages) {
  std::vector<Pace> paces(passes.size());
  FittedCosts costs = FitAtPaces(passes, paces, stages);
  // Paces and costs in turn; each round takes most of what is left of the difference.
  constexpr int kRounds = 8;
  for (int round = 0; round < kRounds && passes.size() > 1; ++round) {
    Pace sum = {0, 0};
    for (size_t p = 0; p < passes.size(); ++p) {
      paces[p] = PaceOf(costs, passes[p]);
      sum.encode += paces[p].encode;
      sum.stage += paces[p].stage;
    }
    for (Pace& pace : paces) {
      pace.encode *= static_cast<double>(paces.size()) / sum.encode;
      pace.stage *= static_cast<double>(paces.size()) / sum.stage;
    }
    costs = FitAtPaces(passes, paces, stages);
  }
  return costs;
}

Pace PaceOf(const FittedCosts& costs, absl::Span<const ActionSample> pass) {
  struct Sum {
    double expected_ns = 0, took_ns = 0;
  };
  Sum encodes, stages;
  for (const ActionSample& sample : pass) {
    if (sample.kind == ActionSample::Kind::kPrepare) continue;
    const Explained part = Explain(costs, sample);
    Sum& sum = sample.kind == ActionSample::Kind::kEncode ? encodes : stages;
    sum.expected_ns += part.alone_ns;
    sum.took_ns += std::max(static_cast<double>(sample.ns) - part.lost_ns, 0.0);
  }
  const auto ratio = [](const Sum& sum) {
    return sum.expected_ns > 0 && sum.took_ns > 0 ? sum.took_ns / sum.expected_ns : 1;
  };
  return {ratio(encodes), ratio(stages)};
}

FittedCosts AtPace(FittedCosts costs, const Pace& pace) {
  costs.encode_ns *= pace.encode;
  costs.encode_token_ns *= pace.encode;
  for (FittedStage& stage : costs.stages) {
    for (double* ns : {&stage.fixed_ns, &stage.token_ns, &stage.pair_ns, &stage.finished_ns}) {
      *ns *= pace.stage;
    }
  }
  return costs;
}

}  // namespace rserve::sim
