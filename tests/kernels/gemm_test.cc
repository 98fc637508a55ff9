#include "kernels/gemm/gemm.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/activation/activation.h"
#include "tests/kernels/arrays.h"
#include "tests/support/catch.h"

namespace rserve::testing {
namespace {

using kernels::Activation;
using kernels::GemmArgs;
using kernels::KernelTable;
using kernels::WeightType;

// The stated order, written plainly.
float Chain(const KernelTable& isa, const float* x, const float* w, int64_t k) {
  float sum = 0.0f;
  for (int64_t i = 0; i < k; ++i) sum = Step(isa, x[i], w[i], sum);
  return sum;
}

TEST_CASE("every output is the one chain over k, for all types, sizes and cuts") {
  for (const KernelTable* isa : AllIsas()) {
    for (WeightType type : {WeightType::kF32, WeightType::kF16, WeightType::kBF16}) {
      for (int64_t k : {1, 7, 64, 255, 256, 257, 520}) {
        for (int64_t n : {1, 15, 16, 33, 64, 129}) {
          const std::vector<float> w = RandomFloats(n * k, 1), bias = RandomFloats(n, 2);
          const Packed packed(*isa, type, n, k, w);
          for (int64_t m : {1, 2, 5, 6, 7, 12, 13, 43, 150, 300}) {
            if (m > 43 && k > 257) continue;
            const std::vector<float> x = RandomFloats(m * k, 3, 1.7f);
            std::vector<float> want(static_cast<size_t>(m * n));
            for (int64_t i = 0; i < m; ++i) {
              for (int64_t j = 0; j < n; ++j) {
                want[static_cast<size_t>(i * n + j)] =
                    Chain(*isa, x.data() + i * k, w.data() + j * k, k) +
                    bias[static_cast<size_t>(j)];
              }
            }
            std::vector<float> y = NanFloats(m * n);
            GemmArgs args;
            args.weight = packed.view();
            args.m = m;
            args.x = x.data();
            args.x_stride = k;
            args.y = y.data();
            args.y_stride = n;
            args.bias = bias.data();
            RunGemm(*isa, args, static_cast<int>(m % 5 + 1));
            CAPTURE(isa->name, static_cast<int>(type), m, n, k);
            REQUIRE(SameBits(y, want));
          }
        }
      }
    }
  }
}

TEST_CASE("a row's bits do not depend on its place, its neighbours or the workers") {
  for (const KernelTable* isa : AllIsas()) {
    constexpr int64_t kN = 90, kK = 300;
    for (WeightType type : {WeightType::kF32, WeightType::kBF16, WeightType::kInt8}) {
      const Packed packed(*isa, type, kN, kK, RandomFloats(kN * kK, 4));
      const std::vector<float> row = RandomFloats(kK, 5, 1.3f);
      std::vector<float> alone = NanFloats(kN);
      GemmArgs args;
      args.weight = packed.view();
      args.m = 1;
      args.x = row.data();
      args.x_stride = kK;
      args.y = alone.data();
      args.y_stride = kN;
      RunGemm(*isa, args, 1);
      for (int64_t m : {2, 14, 31, 200}) {
        for (int64_t place : {int64_t{0}, m / 2, m - 1}) {
          std::vector<float> x = RandomFloats(m * kK, 6, 100.0f), y = NanFloats(m * kN);
          std::copy(row.begin(), row.end(), x.begin() + place * kK);
          args.m = m;
          args.x = x.data();
          args.y = y.data();
          RunGemm(*isa, args, static_cast<int>(place % 4 + 1));
          CAPTURE(isa->name, m, place);
          CHECK(SameBits(std::vector<float>(y.begin() + place * kN, y.begin() + (place + 1) * kN),
                         alone));
        }
      }
    }
  }
}

TEST_CASE("row pointers, strides and an in-place residual are what they say") {
  for (const KernelTable* isa : AllIsas()) {
    constexpr int64_t kM = 33, kN = 21, kK = 40, kStride = 50;
    const std::vector<float> w = RandomFloats(kN * kK, 7), x = RandomFloats(kM * kStride, 8);
    const Packed packed(*isa, WeightType::kF32, kN, kK, w);
    std::vector<float> plain = NanFloats(kM * kN);
    GemmArgs args;
    args.weight = packed.view();
    args.m = kM;
    args.x = x.data();
    args.x_stride = kStride;
    args.y = plain.data();
    args.y_stride = kN;
    RunGemm(*isa, args, 2);

    // Rows backwards on both sides, through pointers; nothing outside of the rows is written.
    std::vector<const float*> x_rows;
    std::vector<float> y = NanFloats(kM * kStride);
    std::vector<float*> y_rows;
    for (int64_t i = 0; i < kM; ++i) {
      x_rows.push_back(x.data() + (kM - 1 - i) * kStride);
      y_rows.push_back(y.data() + (kM - 1 - i) * kStride);
    }
    GemmArgs scattered = args;
    scattered.x = nullptr;
    scattered.y = nullptr;
    scattered.x_rows = x_rows.data();
    scattered.y_rows = y_rows.data();
    RunGemm(*isa, scattered, 3);
    bool same = true, outside = true;
    for (int64_t i = 0; i < kM; ++i) {
      for (int64_t j = 0; j < kStride; ++j) {
        const float value = y[static_cast<size_t>(i * kStride + j)];
        if (j < kN) {
          same &= value == plain[static_cast<size_t>(i * kN + j)];
        } else {
          outside &= std::isnan(value);
        }
      }
    }
    CHECK(same);
    CHECK(outside);

    std::vector<float> residual = RandomFloats(kM * kN, 9), want = residual;
    for (size_t i = 0; i < want.size(); ++i) want[i] = plain[i] + residual[i];
    args.y = residual.data();
    args.residual = residual.data();
    RunGemm(*isa, args, 2);
    CHECK(SameBits(residual, want));
  }
}

TEST_CASE("activations are the elementwise kernels on the product with its bias") {
  for (const KernelTable* isa : AllIsas()) {
    for (int64_t n : {1, 7, 16, 50, 100}) {
      constexpr int64_t kM = 20, kK = 30;
      const std::vector<float> gate_w = RandomFloats(n * kK, 10), up_w = RandomFloats(n * kK, 11);
      const std::vector<float> gate_b = RandomFloats(n, 12), up_b = RandomFloats(n, 13);
      const std::vector<float> x = RandomFloats(kM * kK, 14);
      const Packed gate(*isa, WeightType::kF16, n, kK, gate_w);
      const Packed up(*isa, WeightType::kF16, n, kK, up_w);
      const Packed pair(*isa, WeightType::kF16, n, kK, gate_w, &up_w);
      std::vector<float> g = NanFloats(kM * n), u = g, gelu = g, y = g;
      GemmArgs args;
      args.m = kM;
      args.x = x.data();
      args.x_stride = kK;
      args.y_stride = n;
      args.weight = gate.view();
      args.bias = gate_b.data();
      args.y = g.data();
      RunGemm(*isa, args, 1);
      args.y = gelu.data();
      args.activation = Activation::kGelu;
      RunGemm(*isa, args, 1);
      args.activation = Activation::kNone;
      args.weight = up.view();
      args.bias = up_b.data();
      args.y = u.data();
      RunGemm(*isa, args, 1);
      args.weight = pair.view();
      args.bias = gate_b.data();
      args.bias_up = up_b.data();
      args.y = y.data();
      args.activation = Activation::kSwiglu;
      RunGemm(*isa, args, 2);

      std::vector<float> want_gelu(g.size()), want(g.size());
      kernels::Gelu(*isa, g.data(), static_cast<int64_t>(g.size()), want_gelu.data());
      kernels::Silu(*isa, g.data(), static_cast<int64_t>(g.size()), want.data());
      for (size_t i = 0; i < want.size(); ++i) want[i] *= u[i];
      CAPTURE(isa->name, n);
      CHECK(SameBits(gelu, want_gelu));
      CHECK(SameBits(y, want));
    }
  }
}

TEST_CASE("a packed row unpacks to what it was") {
  for (const KernelTable* isa : AllIsas()) {
    for (WeightType type : {WeightType::kF32, WeightType::kF16, WeightType::kBF16}) {
      constexpr int64_t kN = 37, kK = 523;
      const std::vector<float> w = RandomFloats(kN * kK, 15);
      const Packed packed(*isa, type, kN, kK, w);
      for (int64_t row : {0, 1, 15, 16, 32, 36}) {
        std::vector<float> out = NanFloats(kK);
        kernels::UnpackRow(*isa, packed.view(), row, out.data());
        CAPTURE(isa->name, row);
        CHECK(SameBits(out, std::vector<float>(w.begin() + row * kK, w.begin() + (row + 1) * kK)));
      }
    }
  }
}

// A row as int8 has it, by the definition in gemm.h.
std::vector<int> Quantized(const float* x, int64_t k, float* scale) {
  float largest = 0.0f;
  for (int64_t i = 0; i < k; ++i) largest = std::max(largest, std::fabs(x[i]));
  *scale = largest / 127.0f;
  std::vector<int> q;
  const float inverse = largest == 0.0f ? 0.0f : 1.0f / *scale;
  for (int64_t i = 0; i < k; ++i) q.push_back(static_cast<int>(std::nearbyint(x[i] * inverse)));
  return q;
}

TEST_CASE("int8 sums are exact and the same on every instruction set") {
  for (int64_t k : {1, 3, 4, 63, 770, 1100}) {
    for (int64_t n : {1, 16, 45}) {
      const std::vector<float> w = RandomFloats(n * k, 21), bias = RandomFloats(n, 22);
      for (int64_t m : {1, 5, 14, 31}) {
        const std::vector<float> x = RandomFloats(m * k, 23, 1.3f);
        std::vector<float> want(static_cast<size_t>(m * n));
        for (int64_t i = 0; i < m; ++i) {
          float x_scale = 0.0f, w_scale = 0.0f;
          const std::vector<int> xq = Quantized(x.data() + i * k, k, &x_scale);
          for (int64_t j = 0; j < n; ++j) {
            const std::vector<int> wq = Quantized(w.data() + j * k, k, &w_scale);
            int sum = 0;
            for (size_t l = 0; l < xq.size(); ++l) sum += xq[l] * wq[l];
            want[static_cast<size_t>(i * n + j)] =
                static_cast<float>(sum) * w_scale * x_scale + bias[static_cast<size_t>(j)];
          }
        }
        for (const KernelTable* isa : AllIsas()) {
          const Packed packed(*isa, WeightType::kInt8, n, k, w);
          std::vector<float> y = NanFloats(m * n);
          GemmArgs args;
          args.weight = packed.view();
          args.m = m;
          args.x = x.data();
          args.x_stride = k;
          args.y = y.data();
          args.y_stride = n;
          args.bias = bias.data();
          RunGemm(*isa, args, static_cast<int>(m % 3 + 1));
          CAPTURE(isa->name, m, n, k);
          REQUIRE(SameBits(y, want));
        }
      }
    }
  }
}

// Every pair of products at its largest, in all four combinations of signs.
TEST_CASE("int8 does not saturate") {
  constexpr int64_t kK = 12000, kN = 4;
  for (const KernelTable* isa : AllIsas()) {
    for (const float sign : {1.0f, -1.0f}) {
      std::vector<float> w(kN * kK, 1.0f), x(kK, sign);
      std::fill(w.begin() + kK, w.begin() + 2 * kK, -1.0f);
      const Packed packed(*isa, WeightType::kInt8, kN, kK, w);
      std::vector<float> y = NanFloats(kN);
      GemmArgs args;
      args.weight = packed.view();
      args.m = 1;
      args.x = x.data();
      args.x_stride = kK;
      args.y = y.data();
      args.y_stride = kN;
      RunGemm(*isa, args, 1);
      CAPTURE(isa->name, sign);
      const float scale = 1.0f / 127.0f;
      const float most = static_cast<float>(127 * 127 * kK) * scale * scale;
      CHECK(y[0] == sign * most);
      CHECK(y[1] == -sign * most);
    }
  }
}

TEST_CASE("int8 rows of nothing give the bias, spoilt rows NaN, and neither touches the others") {
  constexpr int64_t kM = 20, kN = 33, kK = 50;
  const std::vector<float> w = RandomFloats(kN * kK, 24), bias = RandomFloats(kN, 25);
  for (const KernelTable* isa : AllIsas()) {
    const Packed packed(*isa, WeightType::kInt8, kN, kK, w);
    std::vector<float> x = RandomFloats(kM * kK, 26), clean = NanFloats(kM * kN), y = clean;
    GemmArgs args;
    args.weight = packed.view();
    args.m = kM;
    args.x = x.data();
    args.x_stride = kK;
    args.y = clean.data();
    args.y_stride = kN;
    args.bias = bias.data();
    RunGemm(*isa, args, 1);
    std::fill(x.begin() + 3 * kK, x.begin() + 4 * kK, 0.0f);
    x[7 * kK + 49] = kNan;
    x[9 * kK] = std::numeric_limits<float>::infinity();
    args.y = y.data();
    RunGemm(*isa, args, 2);
    for (int64_t row = 0; row < kM; ++row) {
      CAPTURE(isa->name, row);
      const std::vector<float> got(y.begin() + row * kN, y.begin() + (row + 1) * kN);
      if (row == 3) {
        CHECK(SameBits(got, bias));
      } else if (row == 7 || row == 9) {
        CHECK(std::all_of(got.begin(), got.end(), [](float v) { return std::isnan(v); }));
      } else {
        CHECK(SameBits(
            got, std::vector<float>(clean.begin() + row * kN, clean.begin() + (row + 1) * kN)));
      }
    }
  }
}

TEST_CASE("tiles cover a product once, and there are enough of them for the workers") {
  for (const KernelTable* isa : AllIsas()) {
    for (int64_t n : {1, 64, 512, 2560, 22016}) {
      for (int64_t m : {0, 1, 5, 6, 7, 64, 263, 265, 278, 395, 397, 512, 4096}) {
        for (int workers : {1, 2, 4, 16}) {
          GemmArgs args;
          args.m = m;
          args.weight.n = n;
          args.weight.k = 64;
          const kernels::GemmTiling tiling = TileGemm(*isa, args, workers);
          CAPTURE(isa->name, m, n, workers, tiling.block_rows, tiling.group_panels);
          if (m == 0) {
            REQUIRE(tiling.tiles() == 0);
            continue;
          }
          const int64_t panels = kernels::PackedPanels(*isa, n, false);
          REQUIRE(tiling.block_rows <= isa->gemm_block_rows);
          REQUIRE(tiling.group_panels <= isa->gemm_group_panels);
          REQUIRE(tiling.block_rows * tiling.row_blocks >= m);
          REQUIRE(tiling.block_rows * (tiling.row_blocks - 1) < m);
          REQUIRE(tiling.group_panels * tiling.groups >= panels);
          REQUIRE(tiling.group_panels * (tiling.groups - 1) < panels);
          if (panels >= 2 * workers) REQUIRE(tiling.tiles() >= workers);
        }
      }
    }
  }
}

}  // namespace
}  // namespace rserve::testing
