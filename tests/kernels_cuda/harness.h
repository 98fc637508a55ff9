// What the tests of emulated kernels share: unkind schedules, guarded arrays, random bf16 numbers.

#ifndef RSERVE_TESTS_KERNELS_CUDA_HARNESS_H_
#define RSERVE_TESTS_KERNELS_CUDA_HARNESS_H_

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <set>
#include <vector>

#include "kernels/cuda/types.h"
#include "tests/kernels_cuda/test_device.h"
#include "tests/support/catch.h"

namespace rserve::testing {

using kernels::cuda::Bf16;
using kernels::cuda::StreamRef;
using kernels::cuda::host::Order;
using kernels::cuda::host::Schedule;

inline std::vector<Schedule> AllSchedules() {
  return {{Order::kLockstep, 1, false},  {Order::kLockstepReverse, 1, true},
          {Order::kRaceAhead, 1, true},  {Order::kRaceAheadReverse, 1, false},
          {Order::kRaceAhead, 1, false}, {Order::kRaceAheadReverse, 1, true},
          {Order::kRandom, 7, true},     {Order::kRandom, 12345, false}};
}

inline float ToF32(Bf16 v) { return std::bit_cast<float>(uint32_t{v.bits} << 16); }
inline Bf16 ToBf16Bits(float v) {
  const auto bits = std::bit_cast<uint32_t>(v);
  return {static_cast<uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16)};
}

// Not inlined: GCC 12 takes the sizes of inlined fills for negative ones and warns.
__attribute__((noinline)) inline void FillBytes(uint8_t* to, size_t count, uint8_t value) {
  std::fill_n(to, count, value);
}

// `count` elements between two guard bands, 16-byte aligned; all bytes 0xff (a NaN) at first. The
// check that the bands are whole comes with the end of its life.
template <typename T>
class Guarded {
 public:
  explicit Guarded(int64_t count)
      : count_(count), bytes_(static_cast<uint8_t*>(TestAllocate(Total()))) {
    FillBytes(bytes_.get(), Total(), kBand);
    FillBytes(Begin(), static_cast<size_t>(count) * sizeof(T), 0xff);
  }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;
  ~Guarded() { CHECK(Whole()); }

  T* data() { return reinterpret_cast<T*>(Begin()); }
  int64_t size() const { return count_; }
  T& operator[](int64_t i) { return data()[i]; }
  std::vector<T> Copy() { return std::vector<T>(data(), data() + count_); }

  bool Whole() {
    const uint8_t* begin = Begin();
    const uint8_t* end = begin + static_cast<size_t>(count_) * sizeof(T);
    const auto band = [](uint8_t b) { return b == kBand; };
    const uint8_t* all = bytes_.get();
    return std::all_of(all, begin, band) && std::all_of(end, all + Total(), band);
  }

 private:
  struct Free {
    void operator()(uint8_t* p) const { TestFree(p); }
  };
  static constexpr uint8_t kBand = 0xa5;
  static constexpr size_t kBandBytes = 256;
  size_t Total() const { return 2 * kBandBytes + static_cast<size_t>(count_) * sizeof(T) + 16; }
  uint8_t* Begin() {
    const auto address = reinterpret_cast<uintptr_t>(bytes_.get()) + kBandBytes;
    return bytes_.get() + kBandBytes + (16 - address % 16) % 16;
  }
  int64_t count_;
  std::unique_ptr<uint8_t[], Free> bytes_;
};

class Random {
 public:
  explicit Random(uint32_t seed) : engine_(seed) {}
  int64_t Int(int64_t low, int64_t high) {  // both included
    return low + static_cast<int64_t>(engine_() % static_cast<uint64_t>(high - low + 1));
  }
  // Uniform in [-scale, scale).
  float Float(float scale = 1.0f) {
    return (static_cast<float>(engine_() >> 8) / static_cast<float>(1 << 23) - 1.0f) * scale;
  }
  template <typename Array>
  void Fill(Array& array, float scale = 1.0f) {
    for (int64_t i = 0; i < array.size(); ++i) array[i] = ToBf16Bits(Float(scale));
  }

 private:
  std::mt19937 engine_;
};

// The largest difference that rounding a correct f32 result to bf16 explains, and `slack` for what
// the f32 arithmetic before it may differ by.
inline double Bf16Tolerance(double want, double slack) { return std::fabs(want) * 0x1p-8 + slack; }

// Runs a kernel under every schedule and checks that nothing went wrong and that the outputs are
// the same bits. `run` makes its outputs anew and returns their bytes.
using RunKernel = std::function<std::vector<uint8_t>(Stream&)>;

inline std::vector<uint8_t> SameUnderAllSchedules(const RunKernel& run) {
  std::vector<uint8_t> first;
  Stream stream;
  for (const Schedule& schedule : AllSchedules()) {
    stream.schedule() = schedule;
    const std::vector<uint8_t> bytes = run(stream);
    INFO("order " << static_cast<int>(schedule.order) << ": " << stream.error());
    REQUIRE(stream.error().empty());
    if (first.empty()) first = bytes;
    REQUIRE(bytes == first);
  }
  return first;
}

// Takes each barrier and each copy wait out of the kernel in turn and checks that some schedule
// shows it: other bytes, or an error. So no missing barrier could go unnoticed here.
#if defined(RSERVE_TEST_GPU)
inline void EveryBarrierIsMissed(const RunKernel&) {}  // a GPU takes no barrier out
#else
inline void EveryBarrierIsMissed(const RunKernel& run) {
  Stream stream;
  const std::vector<uint8_t> want = run(stream);
  REQUIRE(stream.error().empty());
  const std::set<uint32_t> lines = stream.runner().lines();
  REQUIRE_FALSE(lines.empty());
  for (uint32_t line : lines) {
    bool noticed = false;
    for (Schedule schedule : AllSchedules()) {
      Stream broken;
      broken.schedule() = schedule;
      broken.schedule().skip_line = line;
      noticed |= run(broken) != want || !broken.error().empty();
      if (noticed) break;
    }
    INFO("the barrier or copy wait of line " << line << " was taken out");
    CHECK(noticed);
  }
}
#endif

template <typename T>
void AppendBytes(Guarded<T>& array, std::vector<uint8_t>* out) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(array.data());
  out->insert(out->end(), bytes, bytes + static_cast<size_t>(array.size()) * sizeof(T));
}

}  // namespace rserve::testing

#endif  // RSERVE_TESTS_KERNELS_CUDA_HARNESS_H_
