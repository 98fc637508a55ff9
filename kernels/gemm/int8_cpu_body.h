// Int8 for one instruction set: rows quantised, and the steps of the product. See gemm.h.
//
// The sums are exact integers, so every instruction set gives the same. No step can saturate:
// without VNNI |x| <= 127 meets sign(x) w, so two products sum to at most 2 * 127 * 127 < 2^15;
// with VNNI x + 128 meets w, four products go into the int32 sum at once, and 128 times the
// column's sum of weights is taken off in the end.

#ifndef RSERVE_KERNELS_GEMM_INT8_CPU_BODY_H_
#define RSERVE_KERNELS_GEMM_INT8_CPU_BODY_H_

#include "kernels/cpu/simd.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/gemm_cpu_body.h"

namespace rserve::kernels::RSERVE_ISA {

// 4 bytes in every place; by memcpy, for they are no float.
inline VI SplatWord(const float* x) {
  int32_t word;
  std::memcpy(&word, x, sizeof(word));
  return word + VI{};
}
inline VI LoadWords(const int32_t* p) { return AsInt(Load(reinterpret_cast<const float*>(p))); }

#if defined(RSERVE_INT8_VNNI)
struct Int8Steps {
  using Stored = int32_t;
  using Sum = VI;
  using Left = VI;
  static constexpr int kRows = kMr;
  static VI Weight(const Stored* p) { return LoadWords(p); }
  static VI Broadcast(const float* x) { return SplatWord(x); }
  static VI Step(VI x, VI w, VI sum) {
    return reinterpret_cast<VI>(_mm512_dpbusd_epi32(reinterpret_cast<__m512i>(sum),
                                                    reinterpret_cast<__m512i>(x),
                                                    reinterpret_cast<__m512i>(w)));
  }
};
inline constexpr int kInt8Offset = 128;
#elif RSERVE_SIMD_LANES == 16
struct Int8Steps {
  using Stored = int32_t;
  using Sum = VI;
  struct Left {
    __m512i magnitude;
    __mmask64 negative;
  };
  static constexpr int kRows = 5;  // 20 sums, 4 weights, |x|, ones, 2 products
  static VI Weight(const Stored* p) { return LoadWords(p); }
  static Left Broadcast(const float* x) {
    const __m512i all = reinterpret_cast<__m512i>(SplatWord(x));
    return {_mm512_abs_epi8(all), _mm512_movepi8_mask(all)};
  }
  static VI Step(const Left& x, VI w, VI sum) {
    const __m512i weights = reinterpret_cast<__m512i>(w);
    const __m512i turned =
        _mm512_mask_sub_epi8(weights, x.negative, _mm512_setzero_si512(), weights);
    const __m512i pairs = _mm512_maddubs_epi16(x.magnitude, turned);
    return sum + reinterpret_cast<VI>(_mm512_madd_epi16(pairs, _mm512_set1_epi16(1)));
  }
};
inline constexpr int kInt8Offset = 0;
#elif RSERVE_SIMD_LANES == 8
struct Int8Steps {
  using Stored = int32_t;
  using Sum = VI;
  struct Left {
    __m256i value, magnitude;
  };
  static constexpr int kRows = 4;  // 8 sums, 2 weights, x, |x|, ones, 2 products
  static VI Weight(const Stored* p) { return LoadWords(p); }
  static Left Broadcast(const float* x) {
    const __m256i all = reinterpret_cast<__m256i>(SplatWord(x));
    return {all, _mm256_abs_epi8(all)};
  }
  static VI Step(const Left& x, VI w, VI sum) {
    const __m256i turned = _mm256_sign_epi8(reinterpret_cast<__m256i>(w), x.value);
    const __m256i pairs = _mm256_maddubs_epi16(x.magnitude, turned);
    return sum + reinterpret_cast<VI>(_mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
  }
};
inline constexpr int kInt8Offset = 0;
#else
struct Int8Steps {
  using Stored = int32_t;
  using Sum = VI;
  using Left = VI;
  static constexpr int kRows = 4;
  static VI Weight(const Stored* p) { return LoadWords(p); }
  static VI Broadcast(const float* x) { return SplatWord(x); }
  static VI Step(VI x, VI w, VI sum) {
    // Byte after byte to the top of its word and down again, with its sign.
    for (int shift = 24; shift >= 0; shift -= 8) sum += ((x << shift) >> 24) * ((w << shift) >> 24);
    return sum;
  }
};
inline constexpr int kInt8Offset = 0;
#endif

// The scale of `count` numbers, largest magnitude / 127: 0 for a row of (nearly) nothing, NaN for
// one with an infinity or a NaN in it.
inline float Int8Scale(const float* x, int64_t count) {
  V largest = V{}, spoilt = V{};
  int64_t i = 0;
  const auto take = [&](V v) {
    const V magnitude = AsFloat(AsInt(v) & 0x7fffffff);
    largest = largest < magnitude ? magnitude : largest;
    spoilt += v * 0.0f;
  };
  for (; i + kLanes <= count; i += kLanes) take(Load(x + i));
  if (i < count) take(LoadPart(x + i, count - i));
  float lanes[kLanes], bad[kLanes];
  Store(lanes, largest);
  Store(bad, spoilt);
  float most = 0.0f;
  for (int lane = 0; lane < kLanes; ++lane) {
    if (!(bad[lane] == 0.0f)) return __builtin_nanf("");
    most = most < lanes[lane] ? lanes[lane] : most;
  }
  return most < 1e-30f ? 0.0f : most / 127.0f;
}

// q[i] = x[i] * 127 / largest, rounded to the nearest, ties to even, plus `offset`; 0 plus offset
// where the scale is 0 or NaN. Bytes up to the next multiple of 4 are filled with 0.
inline void QuantizeRow(const float* x, int64_t count, int offset, float* scale, uint8_t* q) {
  typedef uint8_t VB __attribute__((vector_size(kLanes)));
  *scale = Int8Scale(x, count);
  const float inverse = *scale > 0.0f ? 1.0f / *scale : 0.0f;
  const auto bytes = [&](V v) {
    // Adding 1.5 * 2^23 rounds to an integer, which is then the lower bits.
    const V t = v * inverse + 12582912.0f;
    const VI rounded = AsInt(t) - 0x4b400000 + offset;
    return __builtin_convertvector(rounded, VB);
  };
  int64_t i = 0;
  if (!(*scale > 0.0f)) {
    for (; i < count; ++i) q[i] = static_cast<uint8_t>(offset);
  }
  for (; i + kLanes <= count; i += kLanes) {
    const VB packed = bytes(Load(x + i));
    std::memcpy(q + i, &packed, sizeof(packed));
  }
  if (i < count) {
    const VB packed = bytes(LoadPart(x + i, count - i));
    std::memcpy(q + i, &packed, static_cast<size_t>(count - i));
    i = count;
  }
  for (; i % 4 != 0; ++i) q[i] = 0;
}

inline void QuantizeRows(const GemmArgs& args, int64_t row_begin, int64_t row_end, int32_t* words,
                         float* scales) {
  const int64_t row_words = Int8Words(args.weight.k);
  for (int64_t row = row_begin; row < row_end; ++row) {
    const float* x = args.x_rows != nullptr ? args.x_rows[row] : args.x + row * args.x_stride;
    QuantizeRow(x, args.weight.k, kInt8Offset, scales + row,
                reinterpret_cast<uint8_t*>(words + row * row_words));
  }
}

inline void GemmInt8Tile(const GemmArgs& args, const GemmRange& range, float* scratch) {
  TileWith<Int8Steps, false>(args, range, Int8Words(args.weight.k), scratch);
}

}  // namespace rserve::kernels::RSERVE_ISA

#endif  // RSERVE_KERNELS_GEMM_INT8_CPU_BODY_H_
