// What a warp's 32 lanes do together, in the register layouts of the PTX manual.

#include <bit>
#include <cstring>
#include <memory>

#include "kernels/cuda/host/block.h"

namespace rserve::kernels::cuda::host {

namespace {

constexpr int kLanes = 32;

float Low(uint32_t pair) { return std::bit_cast<float>(pair << 16); }
float High(uint32_t pair) { return std::bit_cast<float>(pair & 0xffff0000u); }

void LoadAny(void* const* lanes, bool transposed) {
  for (int m = 0; m < 4; ++m) {
    uint16_t matrix[8][8];
    for (int row = 0; row < 8; ++row) {
      const auto* arg = static_cast<const MatrixArg*>(lanes[m * 8 + row]);
      std::memcpy(matrix[row], std::assume_aligned<16>(arg->row), 16);
    }
    // Lane i holds elements (i / 4, 2 (i % 4)) and the next one; transposed: rows for columns.
    for (int i = 0; i < kLanes; ++i) {
      const int row = i / 4, column = i % 4 * 2;
      const uint32_t low = transposed ? matrix[column][row] : matrix[row][column];
      const uint32_t high = transposed ? matrix[column + 1][row] : matrix[row][column + 1];
      static_cast<const MatrixArg*>(lanes[i])->r[m] = low | high << 16;
    }
  }
}

}  // namespace

void Meet(void* const*) {}

void VoteAny(void* const* lanes) {
  bool any = false;
  for (int i = 0; i < kLanes; ++i) any |= static_cast<const VoteArg*>(lanes[i])->value;
  for (int i = 0; i < kLanes; ++i) static_cast<VoteArg*>(lanes[i])->result = any;
}

void LoadMatrices(void* const* lanes) { LoadAny(lanes, false); }
void LoadMatricesTransposed(void* const* lanes) { LoadAny(lanes, true); }

// mma.m16n8k16, with g = lane / 4 and t = lane % 4:
//   a[0]: row g, k 2t..; a[1]: row g + 8; a[2], a[3]: the same rows, k 2t + 8..
//   b[0]: k 2t.., column g; b[1]: k 2t + 8..
//   d[0], d[1]: row g, columns 2t, 2t + 1; d[2], d[3]: row g + 8.
void Mma(void* const* lanes) {
  float a[16][16], b[16][8], d[16][8];
  for (int i = 0; i < kLanes; ++i) {
    const auto& arg = *static_cast<const MmaArg*>(lanes[i]);
    const int g = i / 4, t = i % 4 * 2;
    for (int r = 0; r < 4; ++r) {
      const int row = g + r % 2 * 8, k = t + r / 2 * 8;
      a[row][k] = Low(arg.a[r]);
      a[row][k + 1] = High(arg.a[r]);
    }
    for (int r = 0; r < 2; ++r) {
      b[t + r * 8][g] = Low(arg.b[r]);
      b[t + r * 8 + 1][g] = High(arg.b[r]);
    }
    for (int r = 0; r < 4; ++r) d[g + r / 2 * 8][t + r % 2] = arg.d[r];
  }
  for (int row = 0; row < 16; ++row) {
    for (int k = 0; k < 16; ++k) {
      const float x = a[row][k];
      for (int column = 0; column < 8; ++column) d[row][column] += x * b[k][column];
    }
  }
  for (int i = 0; i < kLanes; ++i) {
    const auto& arg = *static_cast<const MmaArg*>(lanes[i]);
    const int g = i / 4, t = i % 4 * 2;
    for (int r = 0; r < 4; ++r) arg.d[r] = d[g + r / 2 * 8][t + r % 2];
  }
}

}  // namespace rserve::kernels::cuda::host
