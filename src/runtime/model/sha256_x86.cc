// SHA-256 with the SHA extensions of x86-64. Two instructions do four rounds on a state that is
// held as the words A, B, E, F and C, D, G, H; two more make the next four words of the schedule.

#include "src/runtime/model/sha256_blocks.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace rserve::runtime {

#if defined(__x86_64__)

namespace {

__attribute__((target("sha,sse4.1"))) void ShaExtensionBlocks(uint32_t* state, const uint8_t* data,
                                                              size_t blocks) {
  const __m128i big_endian = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
  auto* const words = reinterpret_cast<__m128i*>(state);
  const __m128i badc = _mm_shuffle_epi32(_mm_loadu_si128(words), 0xb1);
  const __m128i hgfe = _mm_shuffle_epi32(_mm_loadu_si128(words + 1), 0x1b);
  __m128i abef = _mm_alignr_epi8(badc, hgfe, 8);
  __m128i cdgh = _mm_blend_epi16(hgfe, badc, 0xf0);
  for (; blocks > 0; --blocks, data += 64) {
    const __m128i abef_before = abef, cdgh_before = cdgh;
    __m128i w[4];
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) {
      __m128i& next = w[i % 4];
      if (i < 4) {
        const auto* const in = reinterpret_cast<const __m128i*>(data) + i;
        next = _mm_shuffle_epi8(_mm_loadu_si128(in), big_endian);
      } else {
        const __m128i last = w[(i + 3) % 4];
        const __m128i seventh = _mm_alignr_epi8(last, w[(i + 2) % 4], 4);
        const __m128i half = _mm_add_epi32(_mm_sha256msg1_epu32(next, w[(i + 1) % 4]), seventh);
        next = _mm_sha256msg2_epu32(half, last);
      }
      const auto* const round = reinterpret_cast<const __m128i*>(internal::kSha256Round) + i;
      const __m128i sum = _mm_add_epi32(next, _mm_load_si128(round));
      cdgh = _mm_sha256rnds2_epu32(cdgh, abef, sum);
      abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(sum, 0x0e));
    }
    abef = _mm_add_epi32(abef, abef_before);
    cdgh = _mm_add_epi32(cdgh, cdgh_before);
  }
  const __m128i feba = _mm_shuffle_epi32(abef, 0x1b);
  const __m128i dchg = _mm_shuffle_epi32(cdgh, 0xb1);
  _mm_storeu_si128(words, _mm_blend_epi16(feba, dchg, 0xf0));
  _mm_storeu_si128(words + 1, _mm_alignr_epi8(dchg, feba, 8));
}

// Not every compiler's __builtin_cpu_supports knows "sha".
bool HasShaExtensions() {
  constexpr unsigned kShaBit = 1u << 29;
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __builtin_cpu_supports("sse4.1") && __builtin_cpu_supports("ssse3") &&
         __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0 && (ebx & kShaBit) != 0;
}

}  // namespace

Sha256Blocks HardwareSha256Blocks() { return HasShaExtensions() ? &ShaExtensionBlocks : nullptr; }

#else

Sha256Blocks HardwareSha256Blocks() { return nullptr; }

#endif

Sha256Blocks BestSha256Blocks() {
  // cpuid traps in a virtual machine, so it is asked once.
  static const Sha256Blocks best = [] {
    const Sha256Blocks hardware = HardwareSha256Blocks();
    return hardware != nullptr ? hardware : &PortableSha256Blocks;
  }();
  return best;
}

}  // namespace rserve::runtime
