// Activations, widening, RMSNorm, rotary, argmax.

#include <cmath>
#include <vector>

#include "kernels/activation/activation.h"
#include "kernels/argmax/argmax.h"
#include "kernels/rmsnorm/rmsnorm.h"
#include "kernels/rotary/rotary.h"
#include "tests/kernels/arrays.h"
#include "tests/support/catch.h"

namespace rserve::testing {
namespace {

using kernels::KernelTable;

TEST_CASE("exp, silu and gelu are close to the exact functions everywhere") {
  std::vector<float> x;
  for (float t = -100.0f; t <= 100.0f; t += 0.0137f) x.push_back(t);
  for (const KernelTable* isa : AllIsas()) {
    CAPTURE(isa->name);
    const int64_t count = static_cast<int64_t>(x.size());
    std::vector<float> exp(x.size()), silu(x.size()), gelu(x.size());
    kernels::Exp(*isa, x.data(), count, exp.data());
    kernels::Silu(*isa, x.data(), count, silu.data());
    kernels::Gelu(*isa, x.data(), count, gelu.data());
    double worst_exp = 0.0, worst_silu = 0.0, worst_gelu = 0.0;
    for (size_t i = 0; i < x.size(); ++i) {
      const double t = x[i];
      if (std::fabs(t) < 87.0) {
        worst_exp = std::max(worst_exp, std::fabs(exp[i] / std::exp(t) - 1.0));
        worst_silu = std::max(worst_silu, std::fabs(silu[i] * (1.0 + std::exp(-t)) / t - 1.0));
      }
      const double exact = 0.5 * t * (1.0 + std::erf(t / std::sqrt(2.0)));
      if (std::fabs(t) <= 10.0) worst_gelu = std::max(worst_gelu, std::fabs(gelu[i] - exact));
    }
    CHECK(worst_exp < 1e-6);
    CHECK(worst_silu < 1e-6);
    CHECK(worst_gelu < 1e-6);
  }
}

TEST_CASE("exp and silu at the ends: zero, infinity, NaN, no overflow") {
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<float> x = {-inf, -1e30f, -88.0f, 0.0f, 89.0f, 1e30f, inf, kNan};
  for (const KernelTable* isa : AllIsas()) {
    CAPTURE(isa->name);
    std::vector<float> exp(x.size()), silu(x.size());
    kernels::Exp(*isa, x.data(), 8, exp.data());
    kernels::Silu(*isa, x.data(), 8, silu.data());
    CHECK(exp[0] == 0.0f);
    CHECK(exp[1] == 0.0f);
    CHECK(exp[2] == 0.0f);
    CHECK(exp[3] == 1.0f);
    CHECK(exp[4] == inf);
    CHECK(exp[6] == inf);
    CHECK(std::isnan(exp[7]));
    CHECK(silu[1] == 0.0f);
    CHECK(silu[3] == 0.0f);
    CHECK(silu[5] == 1e30f);
    CHECK(std::isnan(silu[7]));
  }
}

TEST_CASE("an element's bits do not depend on its place in the vector") {
  const std::vector<float> x = RandomFloats(67, 1, 9.0f);
  for (const KernelTable* isa : AllIsas()) {
    std::vector<float> whole = NanFloats(67);
    kernels::Silu(*isa, x.data(), 67, whole.data());
    for (int64_t i = 0; i < 67; ++i) {
      float one = kNan;
      kernels::Silu(*isa, x.data() + i, 1, &one);
      CHECK(one == whole[static_cast<size_t>(i)]);
    }
  }
}

// All 65536 patterns, against the definition of the formats.
TEST_CASE("half-width numbers widen exactly, subnormals and infinities too") {
  std::vector<uint16_t> patterns(65536);
  for (size_t i = 0; i < patterns.size(); ++i) patterns[i] = static_cast<uint16_t>(i);
  for (const KernelTable* isa : AllIsas()) {
    std::vector<float> f16(65536), bf16(65536);
    isa->widen(kernels::WeightType::kF16, patterns.data(), 65536, f16.data());
    isa->widen(kernels::WeightType::kBF16, patterns.data(), 65536, bf16.data());
    int wrong = 0;
    for (uint32_t i = 0; i < 65536; ++i) {
      uint32_t bits;
      std::memcpy(&bits, &bf16[i], 4);
      wrong += bits != i << 16;
      const int exponent = static_cast<int>(i >> 10 & 31), mantissa = static_cast<int>(i & 1023);
      const float sign = (i & 0x8000) != 0 ? -1.0f : 1.0f;
      if (exponent == 31 && mantissa != 0) {
        wrong += !std::isnan(f16[i]);
        continue;
      }
      const float want = exponent == 31 ? std::numeric_limits<float>::infinity()
                         : exponent == 0
                             ? std::ldexp(static_cast<float>(mantissa), -24)
                             : std::ldexp(static_cast<float>(1024 + mantissa), exponent - 25);
      wrong += f16[i] != sign * want || std::signbit(f16[i]) != std::signbit(sign);
    }
    CAPTURE(isa->name);
    CHECK(wrong == 0);
  }
}

TEST_CASE("rmsnorm sums in 16 lanes and one tree, whatever the instruction set") {
  for (const KernelTable* isa : AllIsas()) {
    for (int64_t width : {1, 15, 16, 17, 48, 131}) {
      constexpr int64_t kRows = 3;
      const std::vector<float> x = RandomFloats(kRows * width, 2, 3.0f);
      const std::vector<float> weight = RandomFloats(width, 3);
      std::vector<float> y = NanFloats(kRows * width), want = y;
      for (int64_t r = 0; r < kRows; ++r) {
        const float* row = x.data() + r * width;
        float lanes[16] = {};
        for (int64_t j = 0; j < width; ++j)
          lanes[j % 16] = Step(*isa, row[j], row[j], lanes[j % 16]);
        for (int step = 8; step > 0; step /= 2) {
          for (int i = 0; i < step; ++i) lanes[i] += lanes[i + step];
        }
        const float inverse = 1.0f / std::sqrt(lanes[0] / static_cast<float>(width) + 1e-6f);
        for (int64_t j = 0; j < width; ++j) {
          want[static_cast<size_t>(r * width + j)] =
              weight[static_cast<size_t>(j)] * (row[j] * inverse);
        }
      }
      kernels::RmsNormArgs args{x.data(), width, weight.data(), 1e-6f, width, y.data(), width};
      kernels::RmsNorm(*isa, args, 2, 3);
      kernels::RmsNorm(*isa, args, 0, 2);
      CAPTURE(isa->name, width);
      CHECK(SameBits(y, want));
    }
  }
}

TEST_CASE("rmsnorm of large values stays finite") {
  for (const KernelTable* isa : AllIsas()) {
    std::vector<float> x(100, 1e17f), weight(100, 1.0f), y(100);
    kernels::RmsNorm(*isa, {x.data(), 100, weight.data(), 1e-6f, 100, y.data(), 100}, 0, 1);
    CHECK(y[0] == Approx(1.0f));
  }
}

TEST_CASE("rotary turns pairs by their angle") {
  for (const KernelTable* isa : AllIsas()) {
    for (int64_t dim : {2, 8, 36, 80, 128}) {
      constexpr int64_t kHeads = 3, kRows = 2;
      const int64_t pairs = dim / 2;
      const std::vector<float> x = RandomFloats(kRows * kHeads * dim, 4);
      const std::vector<float> cosine = RandomFloats(kRows * pairs, 5);
      const std::vector<float> sine = RandomFloats(kRows * pairs, 6);
      std::vector<float> y = x, want = x;
      for (int64_t r = 0; r < kRows; ++r) {
        for (int64_t h = 0; h < kHeads; ++h) {
          float* head = want.data() + (r * kHeads + h) * dim;
          for (int64_t i = 0; i < pairs; ++i) {
            const float a = head[i], b = head[i + pairs];
            const float c = cosine[static_cast<size_t>(r * pairs + i)];
            const float s = sine[static_cast<size_t>(r * pairs + i)];
            head[i] = a * c - b * s;
            head[i + pairs] = b * c + a * s;
          }
        }
      }
      kernels::Rotary(*isa, {y.data(), kHeads * dim, kHeads, dim, cosine.data(), sine.data()}, 0,
                      kRows);
      CAPTURE(isa->name, dim);
      CHECK(SameBits(y, want));
    }
  }
}

TEST_CASE("M-RoPE gives each section its axis, sections repeating the axes") {
  float inverse[8], cosine[8], sine[8];
  kernels::InverseFrequencies(10000.0, 16, inverse);
  CHECK(inverse[0] == 1.0f);
  CHECK(inverse[4] == Approx(0.01f));
  const int32_t positions[3] = {5, 70, 900};
  const int32_t sections[4] = {1, 2, 3, 2};
  kernels::MropeAngles(positions, sections, 4, inverse, 8, cosine, sine);
  const int axis[8] = {0, 1, 1, 2, 2, 2, 0, 0};
  for (int i = 0; i < 8; ++i) {
    const float angle = static_cast<float>(positions[axis[i]]) * inverse[i];
    CHECK(cosine[i] == std::cos(angle));
    CHECK(sine[i] == std::sin(angle));
  }
}

TEST_CASE("argmax takes the first of the largest and passes NaN over") {
  const std::vector<float> x = {kNan, 1.0f, 3.0f, 3.0f, -1.0f, kNan};
  CHECK(kernels::ArgMax(x.data(), 6) == 2);
  CHECK(kernels::ArgMax(x.data(), 1) == -1);
  CHECK(kernels::ArgMax(x.data(), 0) == -1);
  const std::vector<float> y = {0.0f, 1000.0f, 1000.0f};
  CHECK(kernels::LogProbability(y.data(), 3, 1) == Approx(-std::log(2.0)));
  CHECK(kernels::LogProbability(y.data(), 3, 0) == Approx(-1000.0 - std::log(2.0)));
}

}  // namespace
}  // namespace rserve::testing
