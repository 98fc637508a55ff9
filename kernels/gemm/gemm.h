// y[M,N] = epilogue(x[M,K] * W[N,K]^T): the matrix product of every linear layer.
//
// Weights are packed once, when the model is loaded, into panels of `nr` output columns, each
// [K][nr] and contiguous, in their stored type (half-width weights are widened in the kernel).
//
// Exactness. y[m][n] starts at 0 and takes fma(x[m][k], w[n][k], sum) for k = 0, 1, ... K-1: one
// chain in k order, held in a register or parked in f32 between K blocks, which changes nothing.
// Bias, activation and residual follow in that order. Neither M, the row's place, the tile's
// height, the tiling nor the thread count enters, so a row's result does not depend on its
// neighbours. (x86 without FMA: the same chain with two roundings a step.)
//
// Int8. A column's weights are w[n][k] = scale_w[n] * qw, scale_w = largest |w| / 127; a row's
// numbers are quantised as they come, by themselves: qx = round(x / scale_x), ties to even,
// scale_x = largest |x| / 127. The sum over k of qx * qw is an exact integer, so its order does not
// matter, and y = float(sum) * scale_w * scale_x, then bias and so on. All instruction sets give
// the same integers. A row with an infinity or a NaN gives NaNs.
//
// Why our own kernel and not a BLAS: BLIS happens to be batch-invariant, but no library promises
// its order of summation; libraries pack the weights again on every call, which costs most where
// prefill chunks are small; and none reads half-width weights with f32 arithmetic.

#ifndef RSERVE_KERNELS_GEMM_GEMM_H_
#define RSERVE_KERNELS_GEMM_GEMM_H_

#include <cstdint>

#include "kernels/cpu/isa.h"

namespace rserve::kernels {

// How a weight is stored; the first values equal those of model::DType.
enum class WeightType : int32_t { kF32 = 0, kF16 = 1, kBF16 = 2, kInt8 = 3 };
int64_t WeightTypeSize(WeightType type);  // bytes of one element

// Longest row of an int8 weight: no sum can leave 32 bits.
inline constexpr int64_t kMaxInt8K = 65536;
// Words of 4 bytes that a quantised row takes.
constexpr int64_t Int8Words(int64_t k) { return (k + 3) / 4; }

// A packed weight; does not own `data`. Made for one instruction set (its `nr`).
struct PackedWeight {
  const void* data = nullptr;  // 64-byte aligned
  WeightType type = WeightType::kF32;
  int64_t n = 0;  // output columns y gets (for `paired`: of the product gate * up)
  int64_t k = 0;
  bool paired = false;  // each panel holds nr/2 gate columns, then the nr/2 up columns of the same
                        // outputs: what Activation::kSwiglu needs
};

// Panels and bytes that a weight packs into (the last panel is padded with zero columns).
int64_t PackedPanels(const KernelTable& isa, int64_t n, bool paired);
int64_t PackedBytes(const KernelTable& isa, WeightType type, int64_t n, int64_t k, bool paired);

// Packs one panel. rows[i] is the checkpoint row ([k] elements, may be unaligned) of column i of
// the panel, nullptr for padding; `out` is the whole packed buffer. Panels may be packed in
// parallel. PanelColumn says which row belongs where.
void PackPanel(const KernelTable& isa, WeightType type, int64_t k, int64_t panel,
               const void* const* rows, void* out);

// The output column that slot `slot` (0 <= slot < nr) of `panel` holds, or -1 for padding. For
// paired weights `*second` says that the slot belongs to the up half.
int64_t PanelColumn(const KernelTable& isa, int64_t n, bool paired, int64_t panel, int slot,
                    bool* second);

// The same for int8: quantises rows of `source` (f32, f16, bf16). `scratch`: 2 * k floats.
void PackInt8Panel(const KernelTable& isa, WeightType source, int64_t k, int64_t panels,
                   int64_t panel, const void* const* rows, float* scratch, void* out);

// What follows the panels of an int8 weight, by column of the panels: scales, and what a sum of the
// kernel's needs to become the exact one (int32 in floats' places).
struct Int8Columns {
  const float* scales = nullptr;
  const float* corrections = nullptr;
};
Int8Columns ColumnsOf(const PackedWeight& weight, int nr);

// Widens the checkpoint row that became output column `column` back out of an unpaired weight
// that is not int8.
void UnpackRow(const KernelTable& isa, const PackedWeight& weight, int64_t column, float* out);

// Rows of x, quantised for an int8 weight: [m][Int8Words(k)] and [m].
struct Int8Rows {
  const int32_t* words = nullptr;
  const float* scales = nullptr;
};

enum class Activation : int32_t { kNone = 0, kGelu = 1, kSwiglu = 2 };

struct GemmArgs {
  PackedWeight weight;
  int64_t m = 0;
  // Rows of x: x + m * x_stride, or x_rows[m] when given. Strides in floats.
  const float* x = nullptr;
  int64_t x_stride = 0;
  const float* const* x_rows = nullptr;
  Int8Rows int8_rows;  // for int8 weights: what QuantizeRows made of x
  // Rows of y in the same way. y may be `residual`; it must not overlap x otherwise.
  float* y = nullptr;
  int64_t y_stride = 0;
  float* const* y_rows = nullptr;
  const float* bias = nullptr;      // [n], or nullptr
  const float* bias_up = nullptr;   // [n], of the up half (kSwiglu)
  const float* residual = nullptr;  // added last, row stride y_stride; not together with y_rows
  // kSwiglu: silu(gate) * up, for paired weights only.
  Activation activation = Activation::kNone;
};

// Quantises rows [row_begin, row_end) of args.x for its int8 weight.
void QuantizeRows(const KernelTable& isa, const GemmArgs& args, int64_t row_begin, int64_t row_end,
                  int32_t* words, float* scales);

// How a product is cut into tiles that may run in parallel, in any order.
struct GemmTiling {
  int64_t block_rows = 0;
  int64_t row_blocks = 0;
  int64_t group_panels = 0;
  int64_t groups = 0;
  int64_t block_k =
      0;  // steps that the sums go before they wait in memory; any gives the same bits
  int64_t tiles() const { return row_blocks * groups; }
};
GemmTiling TileGemm(const KernelTable& isa, const GemmArgs& args, int workers);

// Computes one tile. `scratch`: GemmScratchFloats(isa) floats of this worker alone.
void GemmTile(const KernelTable& isa, const GemmArgs& args, const GemmTiling& tiling, int64_t tile,
              float* scratch);
int64_t GemmScratchFloats(const KernelTable& isa);

}  // namespace rserve::kernels

#endif  // RSERVE_KERNELS_GEMM_GEMM_H_
