// The instruction sets the kernels are compiled for, and the choice among them.
//
// Every kernel body is compiled once an instruction set; a KernelTable holds one compiled set. A
// host takes BestIsa() once and passes it down; nothing is chosen behind its back, so tests can run
// each set that the machine has. Results are bit-equal between AVX2 and AVX-512; the generic set
// (any CPU of the architecture) rounds differently on x86, which has no FMA there.

#ifndef RSERVE_KERNELS_CPU_ISA_H_
#define RSERVE_KERNELS_CPU_ISA_H_

#include <cstdint>

namespace rserve::kernels {

enum class WeightType : int32_t;
struct GemmArgs;
struct AttentionRows;
struct RotaryArgs;
struct RmsNormArgs;

// The part of a product that one call computes: rows [row_begin, row_end), panels likewise.
struct GemmRange {
  int64_t row_begin = 0;
  int64_t row_end = 0;
  int64_t panel_begin = 0;
  int64_t panel_end = 0;
  int64_t block_k = 0;
};

// kAvx512Vnni differs from kAvx512 in the product with int8 weights only.
enum class Isa : int32_t { kGeneric = 0, kAvx2 = 1, kAvx512 = 2, kAvx512Vnni = 3 };
inline constexpr Isa kAllIsas[] = {Isa::kGeneric, Isa::kAvx2, Isa::kAvx512, Isa::kAvx512Vnni};

inline constexpr int kMaxPanelWidth = 64;    // largest `nr`
inline constexpr int64_t kFmaPeakStep = 72;  // vector FMAs of one iteration of `fma_peak`

// Immutable. Reach the functions through the op headers (kernels/gemm/gemm.h, ...), which state
// their contracts.
struct KernelTable {
  Isa isa;
  const char* name;       // "generic", "avx2", "avx512", "avx512vnni"
  int mr;                 // rows of a register tile
  int nr;                 // columns of a weight panel
  int gemm_block_rows;    // most rows of one tile
  int gemm_group_panels;  // most panels of one tile
  int64_t gemm_scratch_floats;
  int attention_block_rows;  // most query rows of one attention task
  int int8_offset;           // what quantised numbers of x are stored with added to them

  void (*gemm_tile)(const GemmArgs& args, const GemmRange& range, float* scratch);
  void (*gemm_int8_tile)(const GemmArgs& args, const GemmRange& range, float* scratch);
  void (*quantize_rows)(const GemmArgs& args, int64_t row_begin, int64_t row_end, int32_t* words,
                        float* scales);
  // One row of `count` numbers, `offset` added to each byte; bytes beyond it up to a multiple of 4
  // become 0.
  void (*quantize_row)(const float* x, int64_t count, int offset, float* scale, uint8_t* q);
  void (*attend)(const AttentionRows& rows, float* scratch);
  void (*rms_norm)(const RmsNormArgs& args, int64_t row_begin, int64_t row_end);
  void (*rotary)(const RotaryArgs& args, int64_t row_begin, int64_t row_end);
  void (*silu)(const float* x, int64_t count, float* y);
  void (*gelu)(const float* x, int64_t count, float* y);
  void (*exp)(const float* x, int64_t count, float* y);
  void (*widen)(WeightType type, const uint16_t* x, int64_t count, float* y);
  // Repeats `iterations` * kFmaPeakStep independent vector FMAs; returns a value so that they are
  // not dropped. Floating-point operations done: iterations * kFmaPeakStep * lanes * 2.
  float (*fma_peak)(int64_t iterations);
  int lanes;  // floats in a native vector
};

// The set compiled for `isa`, or nullptr where this build or this machine lacks it.
const KernelTable* TableFor(Isa isa);
// The fastest set this machine runs.
const KernelTable& BestIsa();

}  // namespace rserve::kernels

#endif  // RSERVE_KERNELS_CPU_ISA_H_
