// Random arrays and packed weights for the tests of kernels.

#ifndef RSERVE_TESTS_KERNELS_ARRAYS_H_
#define RSERVE_TESTS_KERNELS_ARRAYS_H_

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <new>
#include <random>
#include <vector>

#include "kernels/cpu/isa.h"
#include "kernels/gemm/gemm.h"

namespace rserve::testing {

inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

inline std::vector<const kernels::KernelTable*> AllIsas() {
  std::vector<const kernels::KernelTable*> out;
  for (kernels::Isa isa : kernels::kAllIsas) {
    if (const kernels::KernelTable* table = kernels::TableFor(isa)) out.push_back(table);
  }
  return out;
}

// Multiples of 1/64 in [-scale, scale): exact in f16 and bf16 for scale <= 2.
inline std::vector<float> RandomFloats(int64_t count, uint32_t seed, float scale = 1.0f) {
  std::mt19937 random(seed);
  std::vector<float> out(static_cast<size_t>(count));
  for (float& x : out) {
    x = static_cast<float>(static_cast<int>(random() % 128) - 64) / 64.0f * scale;
  }
  return out;
}

inline std::vector<float> NanFloats(int64_t count) {
  return std::vector<float>(static_cast<size_t>(count), kNan);
}

inline bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// The upper half of an f32, which must be exact.
inline uint16_t ToBf16(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, 4);
  return static_cast<uint16_t>(bits >> 16);
}

// f16 of 0 and of normal numbers that f16 holds exactly.
inline uint16_t ToF16(float x) {
  if (x == 0.0f) return std::signbit(x) ? 0x8000 : 0;
  uint32_t bits;
  std::memcpy(&bits, &x, 4);
  const uint32_t exponent = ((bits >> 23) & 0xff) - 127 + 15;
  return static_cast<uint16_t>((bits >> 31) << 15 | exponent << 10 | ((bits >> 13) & 0x3ff));
}

// A weight [n][k] (and, paired, its up half) packed for one instruction set.
class Packed {
 public:
  // Int8 weights are made of bf16 ones.
  Packed(const kernels::KernelTable& isa, kernels::WeightType wanted, int64_t n, int64_t k,
         const std::vector<float>& weight, const std::vector<float>* up = nullptr) {
    const bool paired = up != nullptr;
    const bool int8 = wanted == kernels::WeightType::kInt8;
    const kernels::WeightType type = int8 ? kernels::WeightType::kBF16 : wanted;
    // Odd addresses: checkpoints promise no alignment.
    const int64_t size = kernels::WeightTypeSize(type);
    std::vector<uint8_t> raw[2];
    for (int half = 0; half < (paired ? 2 : 1); ++half) {
      raw[half].resize(static_cast<size_t>(n * k * size + 1));
      for (int64_t i = 0; i < n * k; ++i) {
        const float x = (half == 0 ? weight : *up)[static_cast<size_t>(i)];
        uint8_t* out = raw[half].data() + 1 + i * size;
        if (type == kernels::WeightType::kF32) {
          std::memcpy(out, &x, 4);
        } else {
          const uint16_t h = type == kernels::WeightType::kF16 ? ToF16(x) : ToBf16(x);
          std::memcpy(out, &h, 2);
        }
      }
    }
    const int64_t bytes = kernels::PackedBytes(isa, wanted, n, k, paired);
    data_.reset(new (std::align_val_t{64}) uint8_t[static_cast<size_t>(bytes)]);
    view_ = {data_.get(), wanted, n, k, paired};
    const int64_t panels = kernels::PackedPanels(isa, n, paired);
    std::vector<float> scratch(static_cast<size_t>(2 * k));
    for (int64_t panel = 0; panel < panels; ++panel) {
      const void* rows[kernels::kMaxPanelWidth];
      for (int slot = 0; slot < isa.nr; ++slot) {
        bool second = false;
        const int64_t column = kernels::PanelColumn(isa, n, paired, panel, slot, &second);
        rows[slot] = column < 0 ? nullptr : raw[second ? 1 : 0].data() + 1 + column * k * size;
      }
      if (int8) {
        kernels::PackInt8Panel(isa, type, k, panels, panel, rows, scratch.data(), data_.get());
      } else {
        kernels::PackPanel(isa, type, k, panel, rows, data_.get());
      }
    }
  }

  const kernels::PackedWeight& view() const { return view_; }

 private:
  struct Free {
    void operator()(uint8_t* p) const { ::operator delete[](p, std::align_val_t{64}); }
  };
  std::unique_ptr<uint8_t[], Free> data_;
  kernels::PackedWeight view_;
};

// Runs a product cut for `workers`, tiles in reverse order, scratch full of NaN before each tile.
inline void RunGemm(const kernels::KernelTable& isa, kernels::GemmArgs args, int workers) {
  std::vector<int32_t> words;
  std::vector<float> scales;
  if (args.weight.type == kernels::WeightType::kInt8) {
    words.assign(static_cast<size_t>(args.m * kernels::Int8Words(args.weight.k)), 0x55555555);
    scales = NanFloats(args.m);
    const int64_t half = args.m / 2;
    kernels::QuantizeRows(isa, args, half, args.m, words.data(), scales.data());
    kernels::QuantizeRows(isa, args, 0, half, words.data(), scales.data());
    args.int8_rows = {words.data(), scales.data()};
  }
  const kernels::GemmTiling tiling = kernels::TileGemm(isa, args, workers);
  for (int64_t tile = tiling.tiles() - 1; tile >= 0; --tile) {
    std::vector<float> scratch = NanFloats(kernels::GemmScratchFloats(isa));
    kernels::GemmTile(isa, args, tiling, tile, scratch.data());
  }
}

// The step of every chain: fused where the instruction set has it.
inline float Step(const kernels::KernelTable& isa, float a, float b, float c) {
#if defined(__x86_64__)
  if (isa.isa == kernels::Isa::kGeneric) {
    const float product = a * b;
    return product + c;
  }
#endif
  (void)isa;
  return std::fma(a, b, c);
}

}  // namespace rserve::testing

#endif  // RSERVE_TESTS_KERNELS_ARRAYS_H_
