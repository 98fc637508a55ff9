// The matrix product for one instruction set; see kernels/cpu/simd.h for how this is compiled.
//
// A tile of up to kBlockRows x kGroupPanels panels goes: for each block of k, copy the rows of x
// into strips, one for each register tile, which the micro-kernel then reads as one stream; for
// each panel run the micro-kernel over the register tiles, accumulating in `c`. The panel's block
// stays in the first-level cache meanwhile, the strips and `c` in the second. Where several
// register tiles follow, a half-width panel block is widened once into the first-level cache.
//
// The register tile is wide rather than tall: 6 x 64 takes 34 instructions for 24 fused
// multiply-adds, 14 x 32 takes 44 for 28, which is more than a core issues in time when the
// other thread of the same core is busy too.
//
// Int8 goes the same way in words of 4 bytes, which hold 4 neighbouring k of a row or a column: a
// step is 4 products into an int32 sum instead of one fused multiply-add.

#ifndef RSERVE_KERNELS_GEMM_GEMM_CPU_BODY_H_
#define RSERVE_KERNELS_GEMM_GEMM_CPU_BODY_H_

#include "kernels/cpu/simd.h"
#include "kernels/gemm/gemm.h"

namespace rserve::kernels::RSERVE_ISA {

inline constexpr int kMr = 6;
#if RSERVE_SIMD_LANES == 16 || defined(__aarch64__)
inline constexpr int kNv = 4;  // 24 sums, 4 weights, 1 broadcast: 29 of 32 registers
#else
inline constexpr int kNv = 2;  // 12 sums, 2 weights, 1 broadcast: 15 of 16 registers
#endif
inline constexpr int kNr = kNv * kLanes;
// Most steps of a block of k; GemmTiling::block_k says how many are taken.
inline constexpr int64_t kMaxBlockK = 256;
// Half as many again as are usual, see TileGemm.
inline constexpr int64_t kBlockRows = kLanes == 16 ? kMr * 66 : kMr * 36;
inline constexpr int64_t kGroupPanels = (kLanes == 16 ? 640 : 512) / kNr;

// How the left operand of a register tile of R rows lies. kRowStride<R>: floats from a row to the
// next; kSkip<R>: floats from the end of 16 steps to the next 16.
inline constexpr int64_t kStripSteps = 16;
// [k / 16][R][16]: a cache line holds 16 steps of a row, and lines follow in the order of use.
struct StripRows {
  template <int R>
  static constexpr int64_t kRowStride = kStripSteps;
  template <int R>
  static constexpr int64_t kSkip = (R - 1) * kStripSteps;
  // The tiles of strips, and their sums, lie one behind the other, so what is wanted next is known.
  // Narrow tiles have few sums and no instruction to spare for asking.
  static constexpr bool kNextFollows = kLanes == 16;
};
// [R][kStride]
template <int64_t kStride>
struct StridedRows {
  template <int R>
  static constexpr int64_t kRowStride = kStride;
  template <int R>
  static constexpr int64_t kSkip = 0;
  static constexpr bool kNextFollows = false;
};
constexpr int64_t StripLength(int64_t k) {
  return (k + kStripSteps - 1) / kStripSteps * kStripSteps;
}

// How weights are stored, and what a step of the sums is. kRows: most rows of a register tile.
struct F32Steps {
  using Stored = float;
  using Sum = V;
  using Left = V;
  static constexpr int kRows = kMr;
  static V Weight(const Stored* p) { return Load(p); }
  static V Broadcast(const float* x) { return Splat(*x); }
  static V Step(V x, V w, V sum) { return Fma(x, w, sum); }
};
struct Bf16Steps : F32Steps {
  using Stored = uint16_t;
  static V Weight(const Stored* p) { return WidenBf16(p); }
};
struct F16Steps : F32Steps {
  using Stored = uint16_t;
  static V Weight(const Stored* p) { return WidenF16(p); }
};

template <class Sum>
Sum LoadSum(const float* p) {
  return reinterpret_cast<Sum>(Load(p));
}

// One step of all R x N sums.
template <int R, int N, class S, class Rows>
[[gnu::always_inline]] inline void StepAll(const float* a, const typename S::Stored* b,
                                           typename S::Sum (&sum)[R][N]) {
  typename S::Sum w[N];
#pragma GCC unroll 4
  for (int n = 0; n < N; ++n) w[n] = S::Weight(b + n * kLanes);
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
    const typename S::Left x = S::Broadcast(a + r * Rows::template kRowStride<R>);
#pragma GCC unroll 4
    for (int n = 0; n < N; ++n) sum[r][n] = S::Step(x, w[n], sum[r][n]);
  }
}

// Memory that will be wanted: a line of 64 bytes is asked for every kAheadSteps steps.
struct Ahead {
  const void* from = nullptr;
  int64_t step = 0;  // bytes from one line to the next; 0: the same line again, for nothing
};
inline constexpr int kAheadSteps = 4;
static_assert(kStripSteps % kAheadSteps == 0);

// Asks for the lines of strips that come up in 32 steps, a strip's 16 steps in four calls, and for
// the sums of the tile behind this one, line by line.
template <int R>
[[gnu::always_inline]] inline void PrefetchNext(const float* a, int part, const float* next_sums) {
  constexpr int kLinesAPart = (R + 3) / 4;
#pragma GCC unroll 4
  for (int i = 0; i < kLinesAPart; ++i) {
    __builtin_prefetch(a + (2 * R + part * kLinesAPart + i) * kStripSteps, 0, 3);
  }
  __builtin_prefetch(next_sums, 1, 3);
}

// c[r][j] = (first ? 0 : c[r][j]), then one step a time with a[r][i] and b[i][j] for
// i = 0 .. k-1, for R rows and N vectors of columns.
template <int R, int N, class S, class Rows>
void Micro(int64_t k, const float* a, const typename S::Stored* b, int64_t b_stride, float* c,
           int64_t c_stride, bool first, Ahead ahead) {
  typename S::Sum sum[R][N];
  if (first) {
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
      for (int n = 0; n < N; ++n) sum[r][n] = typename S::Sum{};
    }
  } else {
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
      for (int n = 0; n < N; ++n) {
        sum[r][n] = LoadSum<typename S::Sum>(c + r * c_stride + n * kLanes);
      }
    }
  }
  const char* line = static_cast<const char*>(ahead.from);
  const float* next_sums = c + R * c_stride;
  int64_t i = 0;
  for (; i + kStripSteps <= k; i += kStripSteps) {
    const float* strip = a;
#pragma GCC unroll 1
    for (int part = 0; part < kStripSteps / kAheadSteps; ++part) {
      __builtin_prefetch(line, 0, 2);
      line += ahead.step;
      if constexpr (Rows::kNextFollows) {
        PrefetchNext<R>(strip, part, next_sums);
        next_sums += 16;
      }
#pragma GCC unroll 4
      for (int u = 0; u < kAheadSteps; ++u) {
        StepAll<R, N, S, Rows>(a + u, b, sum);
        b += b_stride;
      }
      a += kAheadSteps;
    }
    a += Rows::template kSkip<R>;
  }
  for (; i < k; ++i) {
    StepAll<R, N, S, Rows>(a, b, sum);
    a += 1;
    b += b_stride;
  }
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int n = 0; n < N; ++n) {
      Store(c + r * c_stride + n * kLanes, reinterpret_cast<V>(sum[r][n]));
    }
  }
}

template <class S>
using MicroFn = void (*)(int64_t, const float*, const typename S::Stored*, int64_t, float*, int64_t,
                         bool, Ahead);

// The micro-kernel of `rows` rows (1 .. S::kRows). Each height is compiled, so no row is padded; an
// output's chain is the same in all of them.
template <int N, class S, class Rows, int R = S::kRows>
MicroFn<S> PickMicro(int rows) {
  if constexpr (R > 1) {
    if (rows < R) return PickMicro<N, S, Rows, R - 1>(rows);
  }
  return &Micro<R, N, S, Rows>;
}

// Cuts `total` into ceil(total / most) parts of nearly equal size; the first `*larger` are of
// `*size` + 1, the others of `*size`.
inline int CutEvenly(int total, int most, int* size, int* larger) {
  const int count = (total + most - 1) / most;
  *size = total / count;
  *larger = total % count;
  return count;
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

inline float* OutputRow(const GemmArgs& args, int64_t row) {
  return args.y_rows != nullptr ? args.y_rows[row] : args.y + row * args.y_stride;
}

// FinishRows of a whole panel of float sums without an activation, which most are: nothing is
// decided in the loop.
template <bool kBias, bool kResidual>
void FinishPlainRows(const GemmArgs& args, int64_t row_begin, int64_t rows, int64_t panel,
                     const float* c) {
  const int64_t begin = panel * kNr;
  V bias[kNv] = {};
  if constexpr (kBias) {
    for (int n = 0; n < kNv; ++n) bias[n] = Load(args.bias + begin + n * kLanes);
  }
  for (int64_t row = row_begin; row < row_begin + rows; ++row, c += kNr) {
    float* y = OutputRow(args, row) + begin;
    for (int n = 0; n < kNv; ++n) {
      V value = Load(c + n * kLanes);
      if constexpr (kBias) value += bias[n];
      if constexpr (kResidual) {
        value += Load(args.residual + row * args.y_stride + begin + n * kLanes);
      }
      Store(y + n * kLanes, value);
    }
  }
}

// Brings the sums of `rows` rows and one panel to y.
inline void FinishRows(const GemmArgs& args, int64_t row_begin, int64_t rows, int64_t panel,
                       const float* c) {
  const bool swiglu = args.activation == Activation::kSwiglu;
  const int64_t width = swiglu ? kNr / 2 : kNr;
  const int64_t begin = panel * width;
  const int64_t columns = args.weight.n - begin < width ? args.weight.n - begin : width;
  const bool int8 = args.weight.type == WeightType::kInt8;
  if (args.activation == Activation::kNone && !int8 && columns == kNr) {
    const auto plain = args.bias != nullptr
                           ? (args.residual != nullptr ? FinishPlainRows<true, true>
                                                       : FinishPlainRows<true, false>)
                           : (args.residual != nullptr ? FinishPlainRows<false, true>
                                                       : FinishPlainRows<false, false>);
    return plain(args, row_begin, rows, panel, c);
  }
  const Int8Columns scaled = int8 ? ColumnsOf(args.weight, kNr) : Int8Columns();
  for (int64_t r = 0; r < rows; ++r, c += kNr) {
    const int64_t row = row_begin + r;
    const float row_scale = int8 ? args.int8_rows.scales[row] : 0.0f;
    const auto sum = [&](int64_t j) {
      const V value = Load(c + j);
      if (!int8) return value;
      const int64_t column = panel * kNr + j;
      const VI exact = AsInt(value) + AsInt(Load(scaled.corrections + column));
      return __builtin_convertvector(exact, V) * Load(scaled.scales + column) * row_scale;
    };
    float* y = OutputRow(args, row) + begin;
    const float* residual =
        args.residual != nullptr ? args.residual + row * args.y_stride + begin : nullptr;
    for (int64_t j = 0; j < columns; j += kLanes) {
      const int64_t n = columns - j < kLanes ? columns - j : kLanes;
      const float* bias = args.bias != nullptr ? args.bias + begin + j : nullptr;
      V value = sum(j);
      if (swiglu) {
        V up = sum(kNr / 2 + j);
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

// Asks for the places of y that FinishRows will write. Always inlined: to GCC a function that only
// prefetches has no effect, and it drops the call.
[[gnu::always_inline]] inline void PrefetchOutput(const GemmArgs& args, int64_t row_begin,
                                                  int64_t rows, int64_t panel) {
  const int64_t width = args.activation == Activation::kSwiglu ? kNr / 2 : kNr;
  for (int64_t row = row_begin; row < row_begin + rows; ++row) {
    const float* y = OutputRow(args, row) + panel * width;
    for (int64_t j = 0; j < width; j += 16) __builtin_prefetch(y + j, 1, 3);
  }
}

inline constexpr int64_t kGemmScratchFloats =
    kBlockRows * kMaxBlockK + kMaxBlockK * kNr + kGroupPanels * kBlockRows * kNr;

// Row `row` of x, in words of 4 bytes: floats, or 4 quantised numbers each.
inline const float* LeftRow(const GemmArgs& args, int64_t row, int64_t words) {
  if (args.weight.type == WeightType::kInt8) {
    return reinterpret_cast<const float*>(args.int8_rows.words) + row * words;
  }
  return args.x_rows != nullptr ? args.x_rows[row] : args.x + row * args.x_stride;
}

// One block of k of one tile.
struct KBlock {
  int64_t begin = 0;  // in words, so the others
  int64_t count = 0;
  bool first = false, last = false;
};

// Runs the register tiles of one panel over a block, and brings their sums to y after the last.
// `next`: the next panel's block of `next_bytes`, asked for as this one is worked on.
template <class S>
void PanelRows(const GemmArgs& args, const GemmRange& range, const KBlock& block, int64_t panel,
               const float* a, const typename S::Stored* b, float* c, const void* next,
               int64_t next_bytes) {
  const int rows = static_cast<int>(range.row_end - range.row_begin);
  int height = 0, taller = 0;
  const int count = CutEvenly(rows, S::kRows, &height, &taller);
  const MicroFn<S> tall = PickMicro<kNv, S, StripRows>(taller > 0 ? height + 1 : height);
  const MicroFn<S> low = PickMicro<kNv, S, StripRows>(height);
  const int64_t tile_bytes = block.count / kAheadSteps * 64;  // that one register tile asks for
  int64_t row = range.row_begin;
  for (int i = 0; i < count; ++i) {
    const int done = i < taller ? height + 1 : height;
    if (block.last) PrefetchOutput(args, row, done, panel);
    // One tile alone is memory-bound, and the hardware's prefetching is best left to itself.
    Ahead ahead{a, 0};
    if (count > 1 && i * tile_bytes < next_bytes) {
      ahead = {static_cast<const char*>(next) + i * tile_bytes, 64};
    }
    (i < taller ? tall : low)(block.count, a, b, kNr, c, kNr, block.first, ahead);
    if (block.last) FinishRows(args, row, done, panel, c);
    a += done * StripLength(block.count);
    c += done * kNr;
    row += done;
  }
}

// The part of one panel's product that one block makes. `k`: words of a row.
template <class S, bool kWiden>
void PanelBlock(const GemmArgs& args, const GemmRange& range, const KBlock& block, int64_t k,
                int64_t panel, const float* a, float* widened, float* c) {
  const auto* b =
      static_cast<const typename S::Stored*>(args.weight.data) + (panel * k + block.begin) * kNr;
  const bool more = panel + 1 < range.panel_end;
  const int64_t next_bytes =
      more ? block.count * kNr * int64_t{sizeof(typename S::Stored)} : int64_t{0};
  const void* next = b + (more ? k * kNr : 0);
  if constexpr (kWiden) {
    Widen(args.weight.type, b, block.count * kNr, widened);
    PanelRows<F32Steps>(args, range, block, panel, a, widened, c, next, next_bytes);
  } else {
    PanelRows<S>(args, range, block, panel, a, b, c, next, next_bytes);
  }
}

// Rows of x whose part of a block is asked for before it is copied.
inline constexpr int64_t kCopyAhead = 8;

// Copies the range's rows of one block into strips of at most `most` rows.
inline void CopyStrips(const GemmArgs& args, const GemmRange& range, const KBlock& block, int64_t k,
                       int most, float* a) {
  int height = 0, taller = 0;
  const int count =
      CutEvenly(static_cast<int>(range.row_end - range.row_begin), most, &height, &taller);
  int64_t row = range.row_begin;
  for (int tile = 0; tile < count; ++tile) {
    const int rows = tile < taller ? height + 1 : height;
    for (int r = 0; r < rows; ++r, ++row) {
      if (row + kCopyAhead < range.row_end) {
        const float* later = LeftRow(args, row + kCopyAhead, k) + block.begin;
        for (int64_t i = 0; i < block.count; i += 16) __builtin_prefetch(later + i, 0, 2);
      }
      const float* from = LeftRow(args, row, k) + block.begin;
      for (int64_t i = 0; i < block.count; i += kStripSteps) {
        const int64_t left = block.count - i;
        CopyFloats(a + i * rows + r * kStripSteps, from + i,
                   left < kStripSteps ? left : kStripSteps);
      }
    }
    a += rows * StripLength(block.count);
  }
}

template <class S, bool kWiden>
void TileWith(const GemmArgs& args, const GemmRange& range, int64_t k, float* scratch) {
  float* a = scratch;
  float* widened = a + kBlockRows * kMaxBlockK;
  float* c = widened + kMaxBlockK * kNr;
  for (int64_t k_begin = 0; k_begin < k; k_begin += range.block_k) {
    KBlock block{k_begin, k - k_begin < range.block_k ? k - k_begin : range.block_k, k_begin == 0};
    block.last = k_begin + block.count == k;
    CopyStrips(args, range, block, k, S::kRows, a);
    for (int64_t panel = range.panel_begin; panel < range.panel_end; ++panel) {
      PanelBlock<S, kWiden>(args, range, block, k, panel, a, widened,
                            c + (panel - range.panel_begin) * kBlockRows * kNr);
    }
  }
}

inline void GemmTile(const GemmArgs& args, const GemmRange& range, float* scratch) {
  const int64_t k = args.weight.k;
  if (args.weight.type == WeightType::kF32)
    return TileWith<F32Steps, false>(args, range, k, scratch);
  const bool f16 = args.weight.type == WeightType::kF16;
  // Widening a block costs about as much as two register tiles spend on widening as they go.
  if (range.row_end - range.row_begin > 2 * kMr) {
    return f16 ? TileWith<F16Steps, true>(args, range, k, scratch)
               : TileWith<Bf16Steps, true>(args, range, k, scratch);
  }
  return f16 ? TileWith<F16Steps, false>(args, range, k, scratch)
             : TileWith<Bf16Steps, false>(args, range, k, scratch);
}

}  // namespace rserve::kernels::RSERVE_ISA

#endif  // RSERVE_KERNELS_GEMM_GEMM_CPU_BODY_H_
