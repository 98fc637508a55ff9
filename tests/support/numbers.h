// Numbers of golden files, and how results are held to them.

#ifndef RSERVE_TESTS_SUPPORT_NUMBERS_H_
#define RSERVE_TESTS_SUPPORT_NUMBERS_H_

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "src/model/weights/checkpoint.h"
#include "tests/support/catch.h"

namespace rserve::testing {

// A tensor as f32; one that is not there ends the test.
inline std::vector<float> ReadNumbers(const model::Checkpoint& file, const std::string& name) {
  const auto view = file.Get(name);
  INFO(name << ": " << view.status());
  REQUIRE(view.ok());
  std::vector<float> out(static_cast<size_t>(view->elements));
  model::WidenToF32(*view, 0, view->elements, out.data());
  return out;
}

// Largest difference over the largest magnitude wanted, of as many numbers as are wanted; infinity
// for a NaN.
inline double RelativeError(const std::vector<float>& got, const std::vector<float>& want) {
  REQUIRE(got.size() >= want.size());
  double difference = 0.0, largest = 0.0;
  for (size_t i = 0; i < want.size(); ++i) {
    if (std::isnan(got[i])) return std::numeric_limits<double>::infinity();
    difference = std::max(difference, std::fabs(double{got[i]} - want[i]));
    largest = std::max(largest, std::fabs(double{want[i]}));
  }
  return difference / largest;
}

// The same bits everywhere (NaNs never count as the same).
inline bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return false;
  for (float x : a) {
    if (std::isnan(x)) return false;
  }
  return a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

}  // namespace rserve::testing

#endif  // RSERVE_TESTS_SUPPORT_NUMBERS_H_
