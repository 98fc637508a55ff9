#include "kernels/attention/attention.h"

#include <cstring>

#include "kernels/attention/attention_layout.h"

namespace rserve::kernels {

void AttendRows(const KernelTable& isa, const AttentionRows& rows, float* scratch) {
  isa.attend(rows, scratch);
}

int64_t AttentionScratchFloats(const KernelTable& isa) {
  return LayOutAttention(isa.attention_block_rows, isa.mr, kMaxHeadDim).total;
}

void StoreKeyValue(const float* k, const float* v, int64_t head_dim, int64_t block_tokens,
                   int64_t slot, float* k_block, float* v_block) {
  for (int64_t d = 0; d < head_dim; ++d) k_block[d * block_tokens + slot] = k[d];
  std::memcpy(v_block + slot * head_dim, v, static_cast<size_t>(head_dim) * sizeof(float));
}

}  // namespace rserve::kernels
