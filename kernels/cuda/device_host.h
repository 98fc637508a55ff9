// The vocabulary of device.cuh on the host: the threads of a block are fibres of one thread, and
// host/block.h decides which of them runs.
//
// Numbers. MmaBf16 adds the sixteen products of an element to it in the order of k, each rounded to
// f32 (products of two bf16 are exact); a tensor core adds them in an order of its own and keeps
// fewer bits of small addends. Both lie within 17 * 2^-24 * sum |a b| of the exact sum in the worst
// case, which the tests' tolerances cover. Exp2, Exp, Log, Rsqrt, Erf and SinCos are the C
// library's; a device's differ by 2 units in the last place of f32 at most.

#ifndef RSERVE_KERNELS_CUDA_DEVICE_HOST_H_
#define RSERVE_KERNELS_CUDA_DEVICE_HOST_H_

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <source_location>

#include "kernels/cuda/host/block.h"
#include "kernels/cuda/types.h"

#define __global__
#define __device__
#define __launch_bounds__(...)
#define RSERVE_UNROLL

namespace rserve::kernels::cuda {

// Where a barrier or collective was called: threads must meet at the same place, and a test can
// take a place out of the program (host/block.h).
using Site = std::source_location;

inline int ThreadId() { return host::Current().thread; }
inline int BlockThreads() { return host::Current().runner->threads(); }
inline int Lane() { return host::Current().thread % 32; }
inline int Warp() { return host::Current().thread / 32; }
inline int64_t BlockX() { return host::Current().runner->block().x; }
inline int64_t BlockY() { return host::Current().runner->block().y; }
inline int64_t BlockZ() { return host::Current().runner->block().z; }
inline unsigned char* Shared() { return host::Current().runner->shared(); }

inline void SyncThreads(Site site = Site::current()) {
  host::Current().runner->SyncThreads(site.line(), site.file_name());
}
inline void SyncWarp(Site site = Site::current()) {
  host::Current().runner->Collective(host::Meet, nullptr, site.line(), site.file_name());
}

template <typename T>
struct ShuffleArg {
  T value;
  int source;
  T result;
  static void Run(void* const* lanes) {
    for (int i = 0; i < 32; ++i) {
      auto* to = static_cast<ShuffleArg*>(lanes[i]);
      to->result = static_cast<const ShuffleArg*>(lanes[to->source])->value;
    }
  }
};
template <typename T>
T Shuffle(T value, int lane, Site site = Site::current()) {
  ShuffleArg<T> arg{value, lane & 31, T{}};
  host::Current().runner->Collective(ShuffleArg<T>::Run, &arg, site.line(), site.file_name());
  return arg.result;
}
template <typename T>
T ShuffleXor(T value, int mask, Site site = Site::current()) {
  return Shuffle(value, Lane() ^ mask, site);
}
inline bool Any(bool value, Site site = Site::current()) {
  host::VoteArg arg{value, false};
  host::Current().runner->Collective(host::VoteAny, &arg, site.line(), site.file_name());
  return arg.result;
}

inline void LoadMatrix4(uint32_t (&r)[4], const void* row, Site site = Site::current()) {
  host::Current().runner->CheckShared16(row, site.line(), site.file_name());
  host::MatrixArg arg{row, r};
  host::Current().runner->Collective(host::LoadMatrices, &arg, site.line(), site.file_name());
}
inline void LoadMatrix4Transposed(uint32_t (&r)[4], const void* row, Site site = Site::current()) {
  host::Current().runner->CheckShared16(row, site.line(), site.file_name());
  host::MatrixArg arg{row, r};
  host::Current().runner->Collective(host::LoadMatricesTransposed, &arg, site.line(),
                                     site.file_name());
}
inline void MmaBf16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1,
                    Site site = Site::current()) {
  host::MmaArg arg{d, a, {b0, b1}};
  host::Current().runner->Collective(host::Mma, &arg, site.line(), site.file_name());
}

inline void CopyAsync16(void* shared, const void* global, bool valid, Site site = Site::current()) {
  host::Current().runner->CopyAsync(shared, global, valid, site.line(), site.file_name());
}
inline void CopyAsyncCommit() { host::Current().runner->CopyCommit(); }
template <int kPending>
void CopyAsyncWait(Site site = Site::current()) {
  host::Current().runner->CopyWait(kPending, site.line(), site.file_name());
}

struct alignas(16) Words4 {
  uint32_t w[4];
};
inline Words4 Load16(const void* p, Site site = Site::current()) {
  host::Current().runner->CheckAligned(p, 16, site.line(), site.file_name());
  return *static_cast<const Words4*>(p);
}
inline void Store16(void* p, const Words4& v, Site site = Site::current()) {
  host::Current().runner->CheckAligned(p, 16, site.line(), site.file_name());
  *static_cast<Words4*>(p) = v;
}

inline float BitsToFloat(uint32_t bits) { return std::bit_cast<float>(bits); }
inline float ToFloat(Bf16 v) { return BitsToFloat(uint32_t{v.bits} << 16); }
inline Bf16 ToBf16(float v) {
  const auto bits = std::bit_cast<uint32_t>(v);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return {0x7fff};  // as the device's conversion does
  return {static_cast<uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16)};
}
inline uint32_t Pack(float low, float high) {
  return uint32_t{ToBf16(low).bits} | uint32_t{ToBf16(high).bits} << 16;
}
inline void StorePair(Bf16* to, float low, float high, Site site = Site::current()) {
  host::Current().runner->CheckAligned(to, 4, site.line(), site.file_name());
  to[0] = ToBf16(low);
  to[1] = ToBf16(high);
}

inline float Exp2(float v) { return std::exp2(v); }
inline float Exp(float v) { return std::exp(v); }
inline float Log(float v) { return std::log(v); }
inline float Rsqrt(float v) { return 1.0f / std::sqrt(v); }
inline float Erf(float v) { return std::erf(v); }
inline void SinCos(float v, float* sine, float* cosine) {
  *sine = std::sin(v);
  *cosine = std::cos(v);
}
inline float FusedMultiplyAdd(float a, float b, float c) { return std::fma(a, b, c); }
inline float Infinity() { return std::numeric_limits<float>::infinity(); }

}  // namespace rserve::kernels::cuda

#endif  // RSERVE_KERNELS_CUDA_DEVICE_HOST_H_
