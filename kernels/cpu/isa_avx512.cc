// The kernels for AVX-512 (F, BW, DQ, VL); compiled with those switched on.

#define RSERVE_ISA avx512
#define RSERVE_SIMD_LANES 16
#define RSERVE_ISA_VALUE ::rserve::kernels::Isa::kAvx512

#include "kernels/cpu/isa_body.h"

namespace rserve::kernels::avx512 {

namespace {

constexpr KernelTable WithVnni() {
  KernelTable table = kBodies;
  table.isa = Isa::kAvx512Vnni;
  table.name = "avx512vnni";
  table.int8_offset = avx512_vnni::kOffset;
  table.gemm_int8_tile = &avx512_vnni::Int8Tile;
  table.quantize_rows = &avx512_vnni::QuantizeForVnni;
  return table;
}

}  // namespace

const KernelTable kVnniTable = WithVnni();

}  // namespace rserve::kernels::avx512
