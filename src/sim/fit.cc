#include "src/sim/fit.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

namespace rserve::sim {
namespace {

constexpr size_t kParts = 4;
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

}  // namespace

FittedCosts FitCosts(absl::Span<const ActionSample> samples, int32_t stages) {
  FittedCosts costs;
  costs.stages.resize(static_cast<size_t>(stages));
  std::vector<Row> x;
  std::vector<double> y;
  const auto fit = [&](ActionSample::Kind kind, int32_t stage) {
    x.clear();
    y.clear();
    for (const ActionSample& sample : samples) {
      if (sample.kind != kind || (stage >= 0 && sample.stage != stage)) continue;
      const bool chunk = kind == ActionSample::Kind::kStage;
      x.push_back({static_cast<double>(sample.tokens), 1,
                   chunk ? static_cast<double>(sample.pairs) : 0,
                   chunk ? static_cast<double>(sample.finished) : 0});
      y.push_back(static_cast<double>(sample.ns));
    }
    return Fit(x, y);
  };
  const Row prepare = fit(ActionSample::Kind::kPrepare, -1);
  costs.prepare_token_ns = prepare[0];
  costs.prepare_ns = prepare[1];
  const Row encode = fit(ActionSample::Kind::kEncode, -1);
  costs.encode_token_ns = encode[0];
  costs.encode_ns = encode[1];
  for (int32_t s = 0; s < stages; ++s) {
    const Row parts = fit(ActionSample::Kind::kStage, s);
    costs.stages[static_cast<size_t>(s)] = {parts[1], parts[0], parts[2], parts[3]};
  }
  return costs;
}

}  // namespace rserve::sim
