// The int8 product for AVX-512 with VNNI; the other kernels are those of isa_avx512.cc.

#define RSERVE_ISA avx512_vnni
#define RSERVE_SIMD_LANES 16
#define RSERVE_INT8_VNNI 1

#include "kernels/cpu/isa_tables.h"
#include "kernels/gemm/int8_cpu_body.h"

namespace rserve::kernels::avx512_vnni {

static_assert(kOffset == kInt8Offset);

void Int8Tile(const GemmArgs& args, const GemmRange& range, float* scratch) {
  GemmInt8Tile(args, range, scratch);
}

void QuantizeForVnni(const GemmArgs& args, int64_t row_begin, int64_t row_end, int32_t* words,
                     float* scales) {
  QuantizeRows(args, row_begin, row_end, words, scales);
}

}  // namespace rserve::kernels::avx512_vnni
