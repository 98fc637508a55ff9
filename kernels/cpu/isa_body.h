// Gathers the kernel bodies of one instruction set into its table. Included once by each
// kernels/cpu/isa_*.cc, which has defined RSERVE_ISA, RSERVE_SIMD_LANES and RSERVE_ISA_VALUE.

#ifndef RSERVE_KERNELS_CPU_ISA_BODY_H_
#define RSERVE_KERNELS_CPU_ISA_BODY_H_

#include "kernels/activation/activation_cpu_body.h"
#include "kernels/attention/attention_cpu_body.h"
#include "kernels/cpu/isa_tables.h"
#include "kernels/cpu/simd.h"
#include "kernels/gemm/gemm_cpu_body.h"
#include "kernels/gemm/int8_cpu_body.h"
#include "kernels/rmsnorm/rmsnorm_cpu_body.h"
#include "kernels/rotary/rotary_cpu_body.h"

#define RSERVE_ISA_STRING_(x) #x
#define RSERVE_ISA_STRING(x) RSERVE_ISA_STRING_(x)

namespace rserve::kernels::RSERVE_ISA {

// 12 chains hide the FMA's latency with registers to spare; 72 FMAs an iteration hide the loop.
inline float FmaPeak(int64_t iterations) {
  V sum[12];
  for (int i = 0; i < 12; ++i) sum[i] = Splat(static_cast<float>(i));
  const V a = Splat(0.999f), b = Splat(0.001f);
  for (int64_t n = 0; n < iterations; ++n) {
#pragma GCC unroll 6
    for (int j = 0; j < kFmaPeakStep / 12; ++j) {
#pragma GCC unroll 12
      for (int i = 0; i < 12; ++i) sum[i] = Fma(sum[i], a, b);
    }
  }
  V all = sum[0];
  for (int i = 1; i < 12; ++i) all += sum[i];
  float lanes[kLanes];
  Store(lanes, all);
  return lanes[0];
}

constexpr KernelTable kBodies = {
    .isa = RSERVE_ISA_VALUE,
    .name = RSERVE_ISA_STRING(RSERVE_ISA),
    .mr = kMr,
    .nr = kNr,
    .gemm_block_rows = static_cast<int>(kBlockRows),
    .gemm_group_panels = static_cast<int>(kGroupPanels),
    .gemm_scratch_floats = kGemmScratchFloats,
    .attention_block_rows = kAttentionBlockRows,
    .int8_offset = kInt8Offset,
    .gemm_tile = &GemmTile,
    .gemm_int8_tile = &GemmInt8Tile,
    .quantize_rows = &QuantizeRows,
    .quantize_row = &QuantizeRow,
    .attend = &Attend,
    .rms_norm = &RmsNorm,
    .rotary = &Rotary,
    .silu = &Map<&Silu>,
    .gelu = &Map<&Gelu>,
    .exp = &Map<&Exp>,
    .widen = &Widen,
    .fma_peak = &FmaPeak,
    .lanes = kLanes,
};
extern const KernelTable kTable;
const KernelTable kTable = kBodies;

}  // namespace rserve::kernels::RSERVE_ISA

#endif  // RSERVE_KERNELS_CPU_ISA_BODY_H_
