// The vector type of the kernel bodies, compiled once for each instruction set.
//
// Only the files kernels/cpu/isa_*.cc include this, after they have defined
//   RSERVE_ISA          the namespace that keeps the instruction sets' code apart, and
//   RSERVE_SIMD_LANES   floats in one native vector: 16, 8 or 4.
// No standard library template may be used in a kernel body: its code would be compiled with this
// file's instruction set and the linker could keep that copy for everybody.
//
// Rounding. The project is compiled with -ffp-contract=off, so `a * b + c` rounds twice and `Fma`
// once (twice only on x86 without FMA, where every element does so). A lane never sees another
// lane, so an elementwise function gives the same bits whatever the vector's width. Sums over a
// row go through `Sum16`, which has 16 lanes on every instruction set and one fixed tree, so
// AVX2 and AVX-512 agree as well.

#ifndef RSERVE_KERNELS_CPU_SIMD_H_
#define RSERVE_KERNELS_CPU_SIMD_H_

#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace rserve::kernels::RSERVE_ISA {

inline constexpr int kLanes = RSERVE_SIMD_LANES;
inline constexpr int kVecBytes = kLanes * 4;

typedef float V __attribute__((vector_size(kVecBytes)));
typedef int32_t VI __attribute__((vector_size(kVecBytes)));
typedef uint16_t VH __attribute__((vector_size(kVecBytes / 2)));
typedef float VUnaligned __attribute__((vector_size(kVecBytes), aligned(4), may_alias));
typedef uint16_t VHUnaligned __attribute__((vector_size(kVecBytes / 2), aligned(2), may_alias));

inline V Load(const float* p) { return *reinterpret_cast<const VUnaligned*>(p); }
inline void Store(float* p, V v) { *reinterpret_cast<VUnaligned*>(p) = v; }
inline V Splat(float x) { return x - V{}; }
inline VI AsInt(V v) { return reinterpret_cast<VI>(v); }
inline V AsFloat(VI v) { return reinterpret_cast<V>(v); }

// The first n (< kLanes) elements; the other lanes are 0 / are not written.
inline V LoadPart(const float* p, int64_t n) {
  float lanes[kLanes] = {};
  for (int64_t i = 0; i < n; ++i) lanes[i] = p[i];
  return Load(lanes);
}
inline void StorePart(float* p, V v, int64_t n) {
  float lanes[kLanes];
  Store(lanes, v);
  for (int64_t i = 0; i < n; ++i) p[i] = lanes[i];
}

inline void CopyFloats(float* to, const float* from, int64_t count) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) Store(to + i, Load(from + i));
  for (; i < count; ++i) to[i] = from[i];
}

// a * b + c, rounded once where the machine can.
inline V Fma(V a, V b, V c) {
#if RSERVE_SIMD_LANES == 16
  return _mm512_fmadd_ps(a, b, c);
#elif RSERVE_SIMD_LANES == 8
  return _mm256_fmadd_ps(a, b, c);
#elif defined(__aarch64__)
  return vfmaq_f32(c, a, b);
#else
  return a * b + c;
#endif
}

// NaN in `a` gives NaN (the comparison is false), which keeps faults visible.
inline V ClampLow(V a, V low) { return a < low ? low : a; }
inline V ClampHigh(V a, V high) { return a > high ? high : a; }

inline V WidenBf16(const uint16_t* p) {
  const VH half = *reinterpret_cast<const VHUnaligned*>(p);
  return AsFloat(__builtin_convertvector(half, VI) << 16);
}

inline V WidenF16(const uint16_t* p) {
#if RSERVE_SIMD_LANES == 16
  // The masked form with every lane on: GCC 12 warns of its own header in the plain one.
  return _mm512_maskz_cvtph_ps(0xffff, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
#elif RSERVE_SIMD_LANES == 8
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
#else
  // Exponent and mantissa moved into f32's places, then rebased by a multiplication that is exact
  // for normal and subnormal numbers alike; infinities and NaNs get the top exponent afterwards.
  const VI half = __builtin_convertvector(*reinterpret_cast<const VHUnaligned*>(p), VI);
  const VI magnitude = (half & 0x7fff) << 13;
  const V rebased = AsFloat(magnitude) * 0x1p112f;
  const VI special = (half & 0x7c00) == 0x7c00;
  const VI bits = AsInt(rebased) | (special & 0x7f800000);
  return AsFloat(bits | ((half & 0x8000) << 16));
#endif
}

typedef float V4 __attribute__((vector_size(16)));

struct Add {
  template <class T>
  static T Of(T a, T b) {
    return a + b;
  }
};
struct Larger {
  template <class T>
  static T Of(T a, T b) {
    return a < b ? b : a;
  }
};

// Folds a vector to 4 lanes: lanes 8 apart are combined, then lanes 4 apart.
template <class Op>
V4 FoldTo4(V v) {
#if RSERVE_SIMD_LANES == 4
  return v;
#else
#if RSERVE_SIMD_LANES == 16
  const auto half = Op::Of(__builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7),
                           __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15));
#else
  const V half = v;
#endif
  return Op::Of(__builtin_shufflevector(half, half, 0, 1, 2, 3),
                __builtin_shufflevector(half, half, 4, 5, 6, 7));
#endif
}

// A running sum over a row in 16 lanes, whatever the native width.
struct Sum16 {
  static constexpr int kParts = 16 / kLanes;
  V part[kParts] = {};

  // One fixed tree: lanes 8 apart, then 4, 2, 1.
  float Total() const {
    V sum = part[0];
    if constexpr (kParts == 2) sum = part[0] + part[1];
    if constexpr (kParts == 4) sum = (part[0] + part[2]) + (part[1] + part[3]);
    const V4 four = FoldTo4<Add>(sum);
    return (four[0] + four[2]) + (four[1] + four[3]);
  }
};

// The largest lane. What a NaN lane does is not said.
inline float LargestLane(V v) {
  const V4 four = FoldTo4<Larger>(v);
  return Larger::Of(Larger::Of(four[0], four[2]), Larger::Of(four[1], four[3]));
}

// e^x, about 1 ulp; 0 below -87.3 (no subnormal results), infinite above 88.37; NaN stays.
inline V Exp(V x) {
  const V low = Splat(-87.33654f);
  const V high = Splat(88.376259f);
  const V xc = ClampHigh(ClampLow(x, low), high);
  const V magic = Splat(12582912.0f);  // 1.5 * 2^23: adding it rounds to an integer
  const V t = Fma(xc, Splat(1.44269504f), magic);
  const V n = t - magic;
  V r = Fma(n, Splat(-0.693359375f), xc);
  r = Fma(n, Splat(2.12194440e-4f), r);
  V p = Splat(1.9875691500e-4f);
  p = Fma(p, r, Splat(1.3981999507e-3f));
  p = Fma(p, r, Splat(8.3334519073e-3f));
  p = Fma(p, r, Splat(4.1665795894e-2f));
  p = Fma(p, r, Splat(1.6666665459e-1f));
  p = Fma(p, r, Splat(5.0000001201e-1f));
  p = Fma(p, r * r, r) + 1.0f;
  const VI exponent = (AsInt(t) - AsInt(magic) + 127) << 23;
  const V y = p * AsFloat(exponent);
  const V infinity = Splat(__builtin_inff());
  return x < low ? V{} : (x > high ? infinity : y);
}

// x * sigmoid(x)
inline V Silu(V x) { return x / (1.0f + Exp(-x)); }

// x * Phi(x) with the error function (a rational approximation on [-4, 4], a few ulp of 1).
inline V Gelu(V x) {
  const V z = ClampHigh(ClampLow(x * 0.70710678f, Splat(-4.0f)), Splat(4.0f));
  const V z2 = z * z;
  V p = Splat(-2.72614225801306e-10f);
  p = Fma(p, z2, Splat(2.77068142495902e-08f));
  p = Fma(p, z2, Splat(-2.10102402082508e-06f));
  p = Fma(p, z2, Splat(-5.69250639462346e-05f));
  p = Fma(p, z2, Splat(-7.34990630326855e-04f));
  p = Fma(p, z2, Splat(-2.95459980854025e-03f));
  p = Fma(p, z2, Splat(-1.60960333262415e-02f));
  V q = Splat(-1.45660718464996e-05f);
  q = Fma(q, z2, Splat(-2.13374055278905e-04f));
  q = Fma(q, z2, Splat(-1.68282697438203e-03f));
  q = Fma(q, z2, Splat(-7.37332916720468e-03f));
  q = Fma(q, z2, Splat(-1.42647390514189e-02f));
  const V erf = z * p / q;
  return 0.5f * x * (1.0f + erf);
}

}  // namespace rserve::kernels::RSERVE_ISA

#endif  // RSERVE_KERNELS_CPU_SIMD_H_
