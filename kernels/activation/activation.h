// Elementwise functions. The matrix product applies the same code to its tiles (Activation in
// gemm.h); these entry points are for the tests and for callers that hold plain arrays.
//
// One polynomial serves every element, tails included, on every instruction set, so a value's
// result does not depend on where in a vector it lies. Errors against the exact function: exp and
// silu below 1e-6 relative, gelu below 1e-6 absolute for |x| <= 10.

#ifndef RSERVE_KERNELS_ACTIVATION_ACTIVATION_H_
#define RSERVE_KERNELS_ACTIVATION_ACTIVATION_H_

#include <cstdint>

#include "kernels/cpu/isa.h"

namespace rserve::kernels {

// y may be x.
void Silu(const KernelTable& isa, const float* x, int64_t count, float* y);  // x / (1 + e^-x)
void Gelu(const KernelTable& isa, const float* x, int64_t count, float* y);  // x * Phi(x), erf form
void Exp(const KernelTable& isa, const float* x, int64_t count, float* y);

}  // namespace rserve::kernels

#endif  // RSERVE_KERNELS_ACTIVATION_ACTIVATION_H_
