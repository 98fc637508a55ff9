// The kernels for AVX2 with FMA and F16C; compiled with those switched on.

#define RSERVE_ISA avx2
#define RSERVE_SIMD_LANES 8
#define RSERVE_ISA_VALUE ::rserve::kernels::Isa::kAvx2

#include "kernels/cpu/isa_body.h"
