#include "kernels/activation/activation.h"

namespace rserve::kernels {

void Silu(const KernelTable& isa, const float* x, int64_t count, float* y) {
  isa.silu(x, count, y);
}

void Gelu(const KernelTable& isa, const float* x, int64_t count, float* y) {
  isa.gelu(x, count, y);
}

void Exp(const KernelTable& isa, const float* x, int64_t count, float* y) { isa.exp(x, count, y); }

}  // namespace rserve::kernels
