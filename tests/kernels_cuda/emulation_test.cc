// The emulator itself: that it runs a block as a device would, and that it finds what is wrong.

#include <numeric>
#include <string>

#include "kernels/cuda/launch.cuh"
#include "tests/kernels_cuda/harness.h"

namespace rserve::testing {
namespace {

using namespace kernels::cuda;  // NOLINT: kernels, as a .cuh file writes them

struct Numbers {
  const int32_t* in = nullptr;
  int32_t* out = nullptr;
  int32_t count = 0;
};

// Reverses each block's numbers through shared memory, twice.
template <bool kFirst, bool kSecond, bool kThird>
void ReverseTwice(const Numbers p) {
  auto* shared = reinterpret_cast<int32_t*>(Shared());
  const int64_t base = BlockX() * BlockThreads();
  const int mirror = BlockThreads() - 1 - ThreadId();
  shared[ThreadId()] = p.in[base + ThreadId()];
  if constexpr (kFirst) SyncThreads();
  const int32_t once = shared[mirror];
  if constexpr (kSecond) SyncThreads();
  shared[ThreadId()] = once + 1;
  if constexpr (kThird) SyncThreads();
  p.out[base + ThreadId()] = shared[mirror];
}

template <auto kKernel>
bool ReversesUnder(const Schedule& schedule) {
  constexpr int kThreads = 96, kBlocks = 3;
  std::vector<int32_t> in(kThreads * kBlocks), out(in.size(), -1);
  std::iota(in.begin(), in.end(), 100);
  Stream stream;
  stream.schedule() = schedule;
  const Numbers numbers{in.data(), out.data(), 0};
  CHECK(Launch<kKernel>({kBlocks, 1, kThreads, kThreads * 4}, stream.ref(), numbers).ok());
  for (size_t i = 0; i < in.size(); ++i) {
    if (out[i] != in[i] + 1) return false;
  }
  return stream.error().empty();
}

template <auto kKernel>
int SchedulesThatPass() {
  int passed = 0;
  for (const Schedule& schedule : AllSchedules()) passed += ReversesUnder<kKernel>(schedule);
  return passed;
}

TEST_CASE("a kernel with all its barriers is right in every order, with any of them missing not") {
  const int all = static_cast<int>(AllSchedules().size());
  CHECK(SchedulesThatPass<ReverseTwice<true, true, true>>() == all);
  CHECK(SchedulesThatPass<ReverseTwice<false, true, true>>() < all);
  CHECK(SchedulesThatPass<ReverseTwice<true, false, true>>() < all);
  CHECK(SchedulesThatPass<ReverseTwice<true, true, false>>() < all);
}

TEST_CASE("taking a barrier's line out is noticed as a missing barrier is") {
  EveryBarrierIsMissed([](Stream& stream) {
    std::vector<int32_t> in(64);
    std::iota(in.begin(), in.end(), 0);
    Guarded<int32_t> out(64);
    CHECK(Launch<ReverseTwice<true, true, true>>({1, 1, 64, 256}, stream.ref(),
                                                 Numbers{in.data(), out.data(), 0})
              .ok());
    std::vector<uint8_t> bytes;
    AppendBytes(out, &bytes);
    return bytes;
  });
}

// A pipeline of asynchronous copies, 16 bytes a lane and step, three steps deep.
void CopyPipeline(const Numbers p) {
  constexpr int kWords = 4, kDepth = 3;
  auto* shared = reinterpret_cast<int32_t*>(Shared());
  const int step_words = BlockThreads() * kWords;
  const auto load = [&](int step) {
    const int at = step * step_words + ThreadId() * kWords;
    CopyAsync16(shared + step % kDepth * step_words + ThreadId() * kWords,
                p.in + (at < p.count ? at : 0), at < p.count);
  };
  const int steps = (p.count + step_words - 1) / step_words;
  for (int step = 0; step < kDepth - 1; ++step) {
    if (step < steps) load(step);
    CopyAsyncCommit();
  }
  for (int step = 0; step < steps; ++step) {
    CopyAsyncWait<kDepth - 2>();
    SyncThreads();
    if (step + kDepth - 1 < steps) load(step + kDepth - 1);
    CopyAsyncCommit();
    for (int i = 0; i < kWords; ++i) {
      // A neighbour's words: the barrier is needed, not only the wait.
      const int from = (ThreadId() + 37) % BlockThreads() * kWords + i;
      const int at = step * step_words + from;
      if (at < p.count) p.out[at] = shared[step % kDepth * step_words + from];
    }
  }
  CopyAsyncWait<0>();
}

TEST_CASE("asynchronous copies arrive when waited for, zeros where nothing is valid") {
  std::vector<int32_t> in(4 * 64 * 5 - 20);
  std::iota(in.begin(), in.end(), 1);
  const RunKernel run = [&](Stream& stream) {
    Guarded<int32_t> out(static_cast<int64_t>(in.size()));
    const Numbers numbers{in.data(), out.data(), static_cast<int32_t>(in.size())};
    CHECK(Launch<CopyPipeline>({1, 1, 64, 3 * 64 * 16}, stream.ref(), numbers).ok());
    std::vector<uint8_t> bytes;
    AppendBytes(out, &bytes);
    return bytes;
  };
  const std::vector<uint8_t> bytes = SameUnderAllSchedules(run);
  CHECK(std::memcmp(bytes.data(), in.data(), bytes.size()) == 0);
}

template <int kWhat>
void Wrong(const Numbers p) {
  if constexpr (kWhat == 0) {  // half of the block leaves
    if (ThreadId() < 32) SyncThreads();
  } else if constexpr (kWhat == 1) {  // two barriers that are not one
    if (ThreadId() < 32) {
      SyncThreads();
    } else {
      SyncThreads();
    }
  } else if constexpr (kWhat == 2) {  // a warp whose lanes do different things
    if (Lane() < 16) {
      p.out[ThreadId()] = ShuffleXor(1, 1);
    } else {
      p.out[ThreadId()] = Shuffle(2, 0);
    }
  } else if constexpr (kWhat == 3) {  // a lane that leaves before the others shuffle
    if (Lane() != 5) p.out[ThreadId()] = Shuffle(ThreadId(), 0);
  } else if constexpr (kWhat == 4) {
    CopyAsync16(Shared() + ThreadId() * 16, p.in, true);
    CopyAsyncCommit();
  } else if constexpr (kWhat == 5) {  // vectors between their places
    Store16(Shared() + ThreadId() * 8, {});
  } else if constexpr (kWhat == 6) {
    p.out[ThreadId()] = static_cast<int32_t>(Load16(p.in + 1).w[0]);
  } else if constexpr (kWhat == 7) {
    StorePair(reinterpret_cast<Bf16*>(Shared() + 2), 0.0f, 1.0f);
  } else if constexpr (kWhat == 8) {  // copies from, to and beyond what they may
    CopyAsync16(Shared(), p.in + 2, true);
  } else if constexpr (kWhat == 10) {
    CopyAsync16(Shared() + 4, p.in, true);
  } else if constexpr (kWhat == 11) {
    CopyAsync16(Shared() + 1024, p.in, true);
  } else if constexpr (kWhat == 12) {  // rows of a matrix that are none
    uint32_t rows[4];
    LoadMatrix4(rows, Shared() + Lane() * 24);
  } else if constexpr (kWhat == 13) {
    uint32_t rows[4];
    LoadMatrix4Transposed(rows, p.in);
  }
}

template <int kWhat>
std::string ErrorOf() {
  alignas(16) static int32_t in[64];
  std::vector<int32_t> out(64);
  Stream stream;
  CHECK(Launch<Wrong<kWhat>>({1, 1, 64, 1024}, stream.ref(), Numbers{in, out.data(), 0}).ok());
  return stream.error();
}

bool Says(const std::string& error, const std::string& part) {
  UNSCOPED_INFO(error);
  return error.find(part) != std::string::npos;
}

TEST_CASE("what would hang or be undefined on a device is an error that says where") {
  CHECK(Says(ErrorOf<0>(), "32 of 64 ended, 32 at the barrier"));
  CHECK(Says(ErrorOf<1>(), "while others wait at"));
  CHECK(Says(ErrorOf<2>(), "while others wait at"));
  CHECK(Says(ErrorOf<3>(), "31 of warp 0 at"));
  CHECK(Says(ErrorOf<4>(), "copies not waited for"));
}

TEST_CASE("an address that a device faults at is an error that says where") {
  CHECK(Says(ErrorOf<5>(), "thread 1 needs an address of 16-byte alignment at "));
  CHECK(Says(ErrorOf<6>(), "16-byte alignment"));
  CHECK(Says(ErrorOf<7>(), "4-byte alignment"));
  CHECK(Says(ErrorOf<8>(), "16-byte alignment"));
  CHECK(Says(ErrorOf<10>(), "16-byte alignment"));
  CHECK(Says(ErrorOf<11>(), "thread 0 leaves shared memory at "));
  CHECK(Says(ErrorOf<12>(), "thread 1 needs an address of 16-byte alignment"));
  CHECK(Says(ErrorOf<13>(), "leaves shared memory"));
}

TEST_CASE("a launch that no device would take is refused") {
  const Numbers none;
  CHECK(Launch<Wrong<9>>({0, 5, 64, 0}, {}, none).ok());
  CHECK(Launch<Wrong<9>>({int64_t{1} << 31, 1, 64, 0}, {}, none).code ==
        Result::Code::kUnsupported);
  CHECK(Launch<Wrong<9>>({1, 65536, 64, 0}, {}, none).code == Result::Code::kUnsupported);
  CHECK(Launch<Wrong<9>>({1, 1, 40, 0}, {}, none).code == Result::Code::kFailed);
  CHECK(Launch<Wrong<9>>({1, 1, 64, 99 * 1024}, {}, none).ok());
  CHECK(Launch<Wrong<9>>({1, 1, 64, 99 * 1024 + 1}, {}, none).code == Result::Code::kUnsupported);
}

// Multiplies a 16x16 by a 16x8 matrix out of shared memory: rows of a as they lie, b as [k][n] with
// the transposing load, or as [n][k] without.
struct Tiles {
  const Bf16* a = nullptr;
  const Bf16* b = nullptr;
  float* d = nullptr;
  bool b_rows_are_k = false;
};
void MultiplyTile(const Tiles p) {
  auto* a = reinterpret_cast<Bf16*>(Shared());
  Bf16* b = a + 16 * 16;
  for (int i = ThreadId(); i < 16 * 16; i += BlockThreads()) a[i] = p.a[i];
  for (int i = ThreadId(); i < 16 * 16; i += BlockThreads()) {
    // As the transposing load wants it, [k][16] with 8 columns unused; else [8][16] and 8 unused.
    b[i] = i < 16 * 8 ? p.b[i] : Bf16{0};
  }
  SyncThreads();
  uint32_t fa[4], fb[4];
  LoadMatrix4(fa, a + (Lane() % 16) * 16 + Lane() / 16 * 8);
  if (p.b_rows_are_k) {
    LoadMatrix4Transposed(fb, b + Lane() % 16 * 8);
  } else {
    LoadMatrix4(fb, b + (Lane() % 8) * 16 + Lane() / 8 % 2 * 8);
  }
  float d[4] = {};
  MmaBf16(d, fa, fb[0], fb[1]);
  for (int i = 0; i < 4; ++i) {
    p.d[(Lane() / 4 + i / 2 * 8) * 8 + Lane() % 4 * 2 + i % 2] = d[i];
  }
}

TEST_CASE("the tensor-core wrappers multiply, with the operand read either way") {
  Random random(3);
  for (bool rows_are_k : {false, true}) {
    Guarded<Bf16> a(16 * 16), b(16 * 8);
    random.Fill(a);
    random.Fill(b);
    const std::vector<uint8_t> bytes = SameUnderAllSchedules([&](Stream& stream) {
      Guarded<float> d(16 * 8);
      const Tiles tiles{a.data(), b.data(), d.data(), rows_are_k};
      CHECK(Launch<MultiplyTile>({1, 1, 32, 1024}, stream.ref(), tiles).ok());
      std::vector<uint8_t> out;
      AppendBytes(d, &out);
      return out;
    });
    for (int row = 0; row < 16; ++row) {
      for (int column = 0; column < 8; ++column) {
        double want = 0.0;
        for (int k = 0; k < 16; ++k) {
          const int at = rows_are_k ? k * 8 + column : column * 16 + k;
          want += double{ToF32(a[row * 16 + k])} * ToF32(b[at]);
        }
        float got;
        std::memcpy(&got, bytes.data() + (row * 8 + column) * 4, 4);
        CHECK(std::fabs(got - want) <= 1e-5);
      }
    }
  }
}

struct Sums {
  const float* in = nullptr;
  float* sums = nullptr;
  int32_t* any = nullptr;
};
void SumBlock(const Sums p) {
  auto* parts = reinterpret_cast<float*>(Shared());
  const float v = p.in[ThreadId()];
  p.sums[ThreadId()] = BlockSum(v, parts);
  p.any[ThreadId()] = Any(v > 0.9f);
  p.sums[BlockThreads() + ThreadId()] = WarpMax(v);
}

TEST_CASE("sums, maxima and votes reach every thread") {
  std::vector<float> in(128);
  for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(i % 40) / 64.0f;
  in[70] = 1.0f;
  const std::vector<uint8_t> bytes = SameUnderAllSchedules([&](Stream& stream) {
    Guarded<float> sums(256);
    Guarded<int32_t> any(128);
    CHECK(Launch<SumBlock>({1, 1, 128, 16}, stream.ref(), Sums{in.data(), sums.data(), any.data()})
              .ok());
    std::vector<uint8_t> out;
    AppendBytes(sums, &out);
    AppendBytes(any, &out);
    return out;
  });
  std::vector<float> sums(256);
  std::vector<int32_t> any(128);
  std::memcpy(sums.data(), bytes.data(), 1024);
  std::memcpy(any.data(), bytes.data() + 1024, 512);
  const float total = std::accumulate(in.begin(), in.end(), 0.0f);
  for (size_t i = 0; i < 128; ++i) {
    CHECK(sums[i] == total);  // multiples of 1/64: exact
    const auto warp = in.begin() + static_cast<ptrdiff_t>(i / 32 * 32);
    CHECK(sums[128 + i] == *std::max_element(warp, warp + 32));
    CHECK(any[i] == (i / 32 == 2));
  }
}

}  // namespace
}  // namespace rserve::testing
