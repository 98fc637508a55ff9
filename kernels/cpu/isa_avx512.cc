// The kernels for AVX-512 (F, BW, DQ, VL); compiled with those switched on.

#define RSERVE_ISA avx512
#define RSERVE_SIMD_LANES 16
#define RSERVE_ISA_VALUE ::rserve::kernels::Isa::kAvx512

#include "kernels/cpu/isa_body.h"
