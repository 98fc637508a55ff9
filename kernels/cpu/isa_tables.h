// The tables that kernels/cpu/isa_*.cc define. Only kernels/cpu/isa.cc chooses among them.

#ifndef RSERVE_KERNELS_CPU_ISA_TABLES_H_
#define RSERVE_KERNELS_CPU_ISA_TABLES_H_

#include "kernels/cpu/isa.h"

namespace rserve::kernels {

namespace generic {
extern const KernelTable kTable;
}
#if defined(__x86_64__)
namespace avx2 {
extern const KernelTable kTable;
}
namespace avx512 {
extern const KernelTable kTable;
extern const KernelTable kVnniTable;
}  // namespace avx512
// The int8 product with VNNI, for avx512::kVnniTable.
namespace avx512_vnni {
void Int8Tile(const GemmArgs& args, const GemmRange& range, float* scratch);
void QuantizeForVnni(const GemmArgs& args, int64_t row_begin, int64_t row_end, int32_t* words,
                     float* scales);
inline constexpr int kOffset = 128;
}  // namespace avx512_vnni
#endif

}  // namespace rserve::kernels

#endif  // RSERVE_KERNELS_CPU_ISA_TABLES_H_
