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
}
#endif

}  // namespace rserve::kernels

#endif  // RSERVE_KERNELS_CPU_ISA_TABLES_H_
