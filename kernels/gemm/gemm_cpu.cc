#include "kernels/gemm/gemm.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <limits>

namespace rserve::kernels {

namespace {

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

template <typename T>
void PackTyped(int nr, int64_t k, const void* const* rows, T* out) {
  for (int i = 0; i < nr; ++i) {
    const auto* row = static_cast<const uint8_t*>(rows[i]);
    for (int64_t kk = 0; kk < k; ++kk) {
      T value{};
      if (row != nullptr) std::memcpy(&value, row + kk * int64_t{sizeof(T)}, sizeof(T));
      out[kk * nr + i] = value;
    }
  }
}

// Of data, of one core.
int64_t FirstLevelCacheBytes() {
  static const int64_t bytes = [] {
#ifdef _SC_LEVEL1_DCACHE_SIZE
    if (const int64_t known = sysconf(_SC_LEVEL1_DCACHE_SIZE); known > 0) return known;
#endif
    return int64_t{32} << 10;
  }();
  return bytes;
}

// A panel's block and the rows of a register tile take at most 3/4 of the first-level cache; the
// rest is for sums and for what comes next.
int64_t BlockK(const KernelTable& isa) {
  const int64_t most = FirstLevelCacheBytes() * 3 / 4 / (4 * (isa.nr + isa.mr));
  return std::clamp<int64_t>(most / 16 * 16, 16, 256);
}

// What a tile takes beside its multiply-adds, measured with AVX-512: copying rows into strips as
// long as so many columns, fetching and widening weights as long as so many rows.
constexpr int64_t kCopyColumns = 20, kWeightRows = 9;

// Blocks of k keep the panel's part in the first-level cache while the rows are laid out.
constexpr int64_t kPackBlock = 256;

}  // namespace

int64_t WeightTypeSize(WeightType type) {
  return type == WeightType::kF32 ? 4 : (type == WeightType::kInt8 ? 1 : 2);
}

int64_t PackedPanels(const KernelTable& isa, int64_t n, bool paired) {
  return CeilDiv(n, paired ? isa.nr / 2 : isa.nr);
}

int64_t PackedBytes(const KernelTable& isa, WeightType type, int64_t n, int64_t k, bool paired) {
  const int64_t columns = PackedPanels(isa, n, paired) * isa.nr;
  if (type == WeightType::kInt8) return columns * (Int8Words(k) + 2) * 4;
  return columns * k * WeightTypeSize(type);
}

void PackPanel(const KernelTable& isa, WeightType type, int64_t k, int64_t panel,
               const void* const* rows, void* out) {
  const int64_t size = WeightTypeSize(type);
  uint8_t* base = static_cast<uint8_t*>(out) + panel * k * isa.nr * size;
  const void* block_rows[kMaxPanelWidth];
  for (int64_t begin = 0; begin < k; begin += kPackBlock) {
    for (int i = 0; i < isa.nr; ++i) {
      block_rows[i] =
          rows[i] == nullptr ? nullptr : static_cast<const uint8_t*>(rows[i]) + begin * size;
    }
    const int64_t count = std::min(kPackBlock, k - begin);
    uint8_t* block = base + begin * isa.nr * size;
    if (type == WeightType::kF32) {
      PackTyped(isa.nr, count, block_rows, reinterpret_cast<float*>(block));
    } else {
      PackTyped(isa.nr, count, block_rows, reinterpret_cast<uint16_t*>(block));
    }
  }
}

void PackInt8Panel(const KernelTable& isa, WeightType source, int64_t k, int64_t panels,
                   int64_t panel, const void* const* rows, float* scratch, void* out) {
  const int64_t words = Int8Words(k);
  auto* first = static_cast<uint8_t*>(out);
  uint8_t* base = first + panel * words * isa.nr * 4;
  auto* scales = reinterpret_cast<float*>(first + panels * words * isa.nr * 4) + panel * isa.nr;
  auto* corrections =
      reinterpret_cast<int32_t*>(scales - panel * isa.nr + panels * isa.nr) + panel * isa.nr;
  float* row = scratch;
  auto* q = reinterpret_cast<uint8_t*>(scratch + k);
  for (int slot = 0; slot < isa.nr; ++slot) {
    if (rows[slot] == nullptr) {
      std::memset(row, 0, static_cast<size_t>(k) * sizeof(float));
    } else if (source == WeightType::kF32) {
      std::memcpy(row, rows[slot], static_cast<size_t>(k) * sizeof(float));
    } else {
      // Checkpoints promise no alignment.
      auto* halves = reinterpret_cast<uint16_t*>(q);
      std::memcpy(halves, rows[slot], static_cast<size_t>(k) * sizeof(uint16_t));
      isa.widen(source, halves, k, row);
    }
    isa.quantize_row(row, k, 0, scales + slot, q);
    int32_t sum = 0;
    for (int64_t i = 0; i < k; ++i) sum += static_cast<int8_t>(q[i]);
    corrections[slot] = -isa.int8_offset * sum;
    for (int64_t word = 0; word < words; ++word) {
      std::memcpy(base + (word * isa.nr + slot) * 4, q + word * 4, 4);
    }
  }
}

Int8Columns ColumnsOf(const PackedWeight& weight, int nr) {
  const int64_t width = weight.paired ? nr / 2 : nr;
  const int64_t columns = CeilDiv(weight.n, width) * nr;
  const auto* scales = static_cast<const float*>(weight.data) + columns * Int8Words(weight.k);
  return {scales, scales + columns};
}

void QuantizeRows(const KernelTable& isa, const GemmArgs& args, int64_t row_begin, int64_t row_end,
                  int32_t* words, float* scales) {
  isa.quantize_rows(args, row_begin, row_end, words, scales);
}

int64_t PanelColumn(const KernelTable& isa, int64_t n, bool paired, int64_t panel, int slot,
                    bool* second) {
  const int width = paired ? isa.nr / 2 : isa.nr;
  *second = slot >= width;
  const int64_t column = panel * width + (*second ? slot - width : slot);
  return column < n ? column : -1;
}

void UnpackRow(const KernelTable& isa, const PackedWeight& weight, int64_t column, float* out) {
  const int64_t begin = (column / isa.nr) * weight.k * isa.nr + column % isa.nr;
  if (weight.type == WeightType::kF32) {
    const float* data = static_cast<const float*>(weight.data) + begin;
    for (int64_t k = 0; k < weight.k; ++k) out[k] = data[k * isa.nr];
    return;
  }
  // Collected in blocks so that one vector kernel does all widening.
  const uint16_t* data = static_cast<const uint16_t*>(weight.data) + begin;
  uint16_t block[256];
  for (int64_t k = 0; k < weight.k; k += 256) {
    const int64_t count = std::min<int64_t>(256, weight.k - k);
    for (int64_t i = 0; i < count; ++i) block[i] = data[(k + i) * isa.nr];
    isa.widen(weight.type, block, count, out + k);
  }
}

GemmTiling TileGemm(const KernelTable& isa, const GemmArgs& args, int workers) {
  GemmTiling best;
  best.block_k = BlockK(isa);
  if (args.m == 0) return best;
  const int64_t panels = PackedPanels(isa, args.weight.n, args.weight.paired);
  // Some tiles more than workers, so that a late worker costs little.
  const int64_t wanted = int64_t{2} * workers;
  // A few rows too many for one block are taken along: two of half the size would fetch and widen
  // all weights twice.
  const int64_t usual = isa.gemm_block_rows * 2 / 3;
  const int64_t fewest = std::max<int64_t>((args.m + usual / 2) / usual, 1);
  int64_t least = std::numeric_limits<int64_t>::max();
  for (int64_t blocks = fewest; blocks <= std::max(fewest, wanted); ++blocks) {
    GemmTiling tiling = best;
    // Equal blocks, in whole register tiles where that keeps their number.
    const int64_t rows = CeilDiv(CeilDiv(args.m, blocks), isa.mr) * isa.mr;
    tiling.block_rows = std::min<int64_t>(rows, isa.gemm_block_rows);
    tiling.row_blocks = CeilDiv(args.m, tiling.block_rows);
    const int64_t group = CeilDiv(panels, CeilDiv(wanted, tiling.row_blocks));
    tiling.group_panels = std::min<int64_t>(group, isa.gemm_group_panels);
    tiling.groups = CeilDiv(panels, tiling.group_panels);
    const int64_t cost = tiling.tiles() * (tiling.block_rows + kWeightRows) *
                         (tiling.group_panels * isa.nr + kCopyColumns);
    if (cost >= least) continue;
    least = cost;
    best = tiling;
  }
  return best;
}

void GemmTile(const KernelTable& isa, const GemmArgs& args, const GemmTiling& tiling, int64_t tile,
              float* scratch) {
  // Row blocks of one column group follow each other: the group's weights stay in a near cache.
  const int64_t group = tile / tiling.row_blocks;
  const int64_t block = tile % tiling.row_blocks;
  const int64_t panels = PackedPanels(isa, args.weight.n, args.weight.paired);
  GemmRange range;
  range.row_begin = block * tiling.block_rows;
  range.row_end = std::min(args.m, range.row_begin + tiling.block_rows);
  range.panel_begin = group * tiling.group_panels;
  range.panel_end = std::min(panels, range.panel_begin + tiling.group_panels);
  range.block_k = tiling.block_k;
  if (args.weight.type == WeightType::kInt8) {
    isa.gemm_int8_tile(args, range, scratch);
  } else {
    isa.gemm_tile(args, range, scratch);
  }
}

int64_t GemmScratchFloats(const KernelTable& isa) { return isa.gemm_scratch_floats; }

}  // namespace rserve::kernels
