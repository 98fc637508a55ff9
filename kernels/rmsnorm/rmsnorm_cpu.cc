#include "kernels/rmsnorm/rmsnorm.h"

namespace rserve::kernels {

void RmsNorm(const KernelTable& isa, const RmsNormArgs& args, int64_t row_begin, int64_t row_end) {
  isa.rms_norm(args, row_begin, row_end);
}

}  // namespace rserve::kernels
