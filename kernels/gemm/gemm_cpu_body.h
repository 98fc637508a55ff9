// The matrix product for one instruction set; see kernels/cpu/simd.h for how this is compiled.
//
// A tile of up to kBlockRows x kGroupPanels panels goes: for each block of kBlockK, copy the rows
// of x to a fixed stride (so that the micro-kernel addresses all of them off one base register),
// then for each panel run the micro-kernel over register tiles, accumulating in `c`. Where several
// register tiles follow, a half-width panel block is widened once into the first-level cache.

#ifndef RSERVE_KERNELS_GEMM_GEMM_CPU_BODY_H_
#define RSERVE_KERNELS_GEMM_GEMM_CPU_BODY_H_

#include "kernels/cpu/simd.h"
#include "kernels/gemm/gemm.h"

namespace rserve::kernels::RSERVE_ISA {

#if RSERVE_SIMD_LANES == 16
inline constexpr int kMr = 14;  // 28 sums, 2 weights, x broadcast from memory: 30 of 32 registers
inline constexpr int kNv = 2;
#elif RSERVE_SIMD_LANES == 4 && defined(__aarch64__)
inline constexpr int kMr = 6;  // 24 sums, 4 weights, 1 broadcast: 29 of 32 registers
inline constexpr int kNv = 4;
#else
inline constexpr int kMr = 6;  // 12 sums, 2 weights, 1 broadcast: 15 of 16 registers
inline constexpr int kNv = 2;
#endif
inline constexpr int kNr = kNv * kLanes;
inline constexpr int64_t kBlockK = 256;
// Row stride of every left operand. 17 cache lines: rows do not fall on the same cache sets.
inline constexpr int64_t kLeftStride = kBlockK + 16;
inline constexpr int64_t kBlockRows = kMr * (144 / kMr);
inline constexpr int64_t kGroupPanels = 512 / kNr;

struct LoadF32 {
  using T = float;
  static V At(const T* p) { return Load(p); }
};
struct LoadBf16 {
  using T = uint16_t;
  static V At(const T* p) { return WidenBf16(p); }
};
struct LoadF16 {
  using T = uint16_t;
  static V At(const T* p) { return WidenF16(p); }
};

// c[r][j] = (first ? 0 : c[r][j]) then fma(a[r][i], b[i][j], .) for i = 0 .. k-1, for R rows and
// N vectors of columns. Row stride of a: kLeftStride.
template <int R, int N, class L>
void Micro(int64_t k, const float* a, const typename L::T* b, int64_t b_stride, float* c,
           int64_t c_stride, bool first) {
  V sum[R][N];
  if (first) {
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
      for (int n = 0; n < N; ++n) sum[r][n] = V{};
    }
  } else {
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
      for (int n = 0; n < N; ++n) sum[r][n] = Load(c + r * c_stride + n * kLanes);
    }
  }
  for (int64_t i = 0; i < k; ++i) {
    V w[N];
#pragma GCC unroll 4
    for (int n = 0; n < N; ++n) w[n] = L::At(b + n * kLanes);
    b += b_stride;
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      const V x = Splat(a[r * kLeftStride + i]);
#pragma GCC unroll 4
      for (int n = 0; n < N; ++n) sum[r][n] = Fma(x, w[n], sum[r][n]);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int n = 0; n < N; ++n) Store(c + r * c_stride + n * kLanes, sum[r][n]);
  }
}

template <class L>
using MicroFn = void (*)(int64_t, const float*, const typename L::T*, int64_t, float*, int64_t,
                         bool);

// The micro-kernel of `rows` rows (1 .. kMr). Each height is compiled, so no row is padded; an
// output's chain is the same in all of them.
template <int N, class L, int R = kMr>
MicroFn<L> PickMicro(int rows) {
  if constexpr (R > 1) {
    if (rows < R) return PickMicro<N, L, R - 1>(rows);
  }
  return &Micro<R, N, L>;
}

// Cuts `rows` into ceil(rows / kMr) register tiles of nearly equal height; the first `*taller`
// have `*height` + 1 rows, the others `*height`.
inline int CutRows(int rows, int* height, int* taller) {
  const int count = (rows + kMr - 1) / kMr;
  *height = rows / count;
  *taller = rows % count;
  return count;
}

template <class L>
void PanelRows(int64_t k, const float* a, int rows, const typename L::T* b, float* c, bool first) {
  int height = 0, taller = 0;
  const int count = CutRows(rows, &height, &taller);
  const MicroFn<L> tall = PickMicro<kNv, L>(taller > 0 ? height + 1 : height);
  const MicroFn<L> low = PickMicro<kNv, L>(height);
  for (int i = 0; i < count; ++i) {
    (i < taller ? tall : low)(k, a, b, kNr, c, kNr, first);
    const int done = i < taller ? height + 1 : height;
    a += done * kLeftStride;
    c += done * kNr;
  }
}

inline void Widen(WeightType type, const uint16_t* x, int64_t count, float* y) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    Store(y + i, type == WeightType::kF16 ? WidenF16(x + i) : WidenBf16(x + i));
  }
  if (i < count) {
    uint16_t lanes[kLanes] = {};
    for (int64_t j = i; j < count; ++j) lanes[j - i] = x[j];
    StorePart(y + i, type == WeightType::kF16 ? WidenF16(lanes) : WidenBf16(lanes), count - i);
  }
}

// Bias, activation and residual of one vector of `n` (<= kLanes) columns, stored to y.
inline void FinishVector(V value, const float* bias, const float* residual, float* y, int64_t n,
                         bool gelu) {
  const bool full = n == kLanes;
  if (bias != nullptr) value += full ? Load(bias) : LoadPart(bias, n);
  if (gelu) value = Gelu(value);
  if (residual != nullptr) value += full ? Load(residual) : LoadPart(residual, n);
  if (full) {
    Store(y, value);
  } else {
    StorePart(y, value, n);
  }
}

inline void FinishPanel(const GemmArgs& args, int64_t row_begin, int64_t rows, int64_t panel,
                        const float* c) {
  const bool swiglu = args.activation == Activation::kSwiglu;
  const int64_t width = swiglu ? kNr / 2 : kNr;
  const int64_t begin = panel * width;
  const int64_t columns = args.weight.n - begin < width ? args.weight.n - begin : width;
  for (int64_t r = 0; r < rows; ++r, c += kNr) {
    const int64_t row = row_begin + r;
    float* y = (args.y_rows != nullptr ? args.y_rows[row] : args.y + row * args.y_stride) + begin;
    const float* residual =
        args.residual != nullptr ? args.residual + row * args.y_stride + begin : nullptr;
    for (int64_t j = 0; j < columns; j += kLanes) {
      const int64_t n = columns - j < kLanes ? columns - j : kLanes;
      const float* bias = args.bias != nullptr ? args.bias + begin + j : nullptr;
      V value = Load(c + j);
      if (swiglu) {
        V up = Load(c + kNr / 2 + j);
        if (bias != nullptr) value += LoadPart(bias, n);
        if (args.bias_up != nullptr) up += LoadPart(args.bias_up + begin + j, n);
        value = Silu(value) * up;
        bias = nullptr;
      }
      FinishVector(value, bias, residual != nullptr ? residual + j : nullptr, y + j, n,
                   args.activation == Activation::kGelu);
    }
  }
}

inline constexpr int64_t kGemmScratchFloats =
    kBlockRows * kLeftStride + kBlockK * kNr + kGroupPanels * kBlockRows * kNr;

inline void GemmTile(const GemmArgs& args, const GemmRange& range, float* scratch) {
  const int64_t k = args.weight.k;
  const int rows = static_cast<int>(range.row_end - range.row_begin);
  float* a = scratch;
  float* widened = a + kBlockRows * kLeftStride;
  float* c = widened + kBlockK * kNr;
  for (int64_t k_begin = 0; k_begin < k; k_begin += kBlockK) {
    const int64_t count = k - k_begin < kBlockK ? k - k_begin : kBlockK;
    for (int r = 0; r < rows; ++r) {
      const int64_t row = range.row_begin + r;
      const float* x = args.x_rows != nullptr ? args.x_rows[row] : args.x + row * args.x_stride;
      std::memcpy(a + r * kLeftStride, x + k_begin, static_cast<size_t>(count) * sizeof(float));
    }
    for (int64_t panel = range.panel_begin; panel < range.panel_end; ++panel) {
      const int64_t offset = (panel * k + k_begin) * kNr;
      float* c_panel = c + (panel - range.panel_begin) * kBlockRows * kNr;
      const bool first = k_begin == 0;
      if (args.weight.type == WeightType::kF32) {
        const float* b = static_cast<const float*>(args.weight.data) + offset;
        PanelRows<LoadF32>(count, a, rows, b, c_panel, first);
        continue;
      }
      const uint16_t* b = static_cast<const uint16_t*>(args.weight.data) + offset;
      if (rows > 2 * kMr) {
        Widen(args.weight.type, b, count * kNr, widened);
        PanelRows<LoadF32>(count, a, rows, widened, c_panel, first);
      } else if (args.weight.type == WeightType::kBF16) {
        PanelRows<LoadBf16>(count, a, rows, b, c_panel, first);
      } else {
        PanelRows<LoadF16>(count, a, rows, b, c_panel, first);
      }
    }
  }
  for (int64_t panel = range.panel_begin; panel < range.panel_end; ++panel) {
    FinishPanel(args, range.row_begin, rows, panel,
                c + (panel - range.panel_begin) * kBlockRows * kNr);
  }
}

}  // namespace rserve::kernels::RSERVE_ISA

#endif  // RSERVE_KERNELS_GEMM_GEMM_CPU_BODY_H_
