// The kernels for any CPU of the architecture: SSE2 on x86-64, NEON on AArch64.

#define RSERVE_ISA generic
#define RSERVE_SIMD_LANES 4
#define RSERVE_ISA_VALUE ::rserve::kernels::Isa::kGeneric

#include "kernels/cpu/isa_body.h"
