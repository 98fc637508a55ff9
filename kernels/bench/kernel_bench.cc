// Speed of the kernels on one thread, next to the FMA peak measured in the same run.
//
//   rserve_kernel_bench [generic|avx2|avx512]
//
// Every figure is the median of several runs; on a shared machine compare only inside one run.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/attention/attention.h"
#include "kernels/cpu/isa.h"
#include "kernels/gemm/gemm.h"

namespace rserve::kernels {
namespace {

constexpr int kRuns = 9;

double Median(const std::function<void()>& run) {
  std::vector<double> seconds;
  run();
  for (int i = 0; i < kRuns; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    run();
    seconds.push_back(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  std::nth_element(seconds.begin(), seconds.begin() + kRuns / 2, seconds.end());
  return seconds[kRuns / 2];
}

// 64-byte aligned storage.
class Floats {
 public:
  explicit Floats(int64_t count) : data_(new (std::align_val_t{64}) float[count]) {
    for (int64_t i = 0; i < count; ++i) data_.get()[i] = static_cast<float>(i % 17 - 8) * 0.0625f;
  }
  float* get() const { return data_.get(); }

 private:
  struct Free {
    void operator()(float* p) const { ::operator delete[](p, std::align_val_t{64}); }
  };
  std::unique_ptr<float[], Free> data_;
};

double PeakGflops(const KernelTable& isa) {
  constexpr int64_t kIterations = 400000;
  volatile float sink = 0.0f;
  const double seconds = Median([&] { sink = isa.fma_peak(kIterations); });
  (void)sink;
  return static_cast<double>(kIterations) * 64 * isa.lanes * 2 / seconds * 1e-9;
}

void BenchGemm(const KernelTable& isa, WeightType type, int64_t m, int64_t n, int64_t k,
               bool swiglu, double peak) {
  GemmArgs args;
  const int64_t columns = swiglu ? n / 2 : n;
  Floats weight(PackedBytes(isa, type, columns, k, swiglu) / 4 + 1);
  if (type != WeightType::kF32) {  // 1.0 or 0.5 in either half-width type would do; zeros too
    std::memset(weight.get(), 0x3c,
                static_cast<size_t>(PackedBytes(isa, type, columns, k, swiglu)));
  }
  Floats x(m * k), y(m * n), scratch(GemmScratchFloats(isa));
  args.weight = {weight.get(), type, columns, k, swiglu};
  args.m = m;
  args.x = x.get();
  args.x_stride = k;
  args.y = y.get();
  args.y_stride = columns;
  args.activation = swiglu ? Activation::kSwiglu : Activation::kNone;
  const GemmTiling tiling = TileGemm(isa, args, 1);
  const double seconds = Median([&] {
    for (int64_t tile = 0; tile < tiling.tiles(); ++tile) {
      GemmTile(isa, args, tiling, tile, scratch.get());
    }
  });
  const double gflops = 2.0 * static_cast<double>(m * n * k) / seconds * 1e-9;
  const char* names[] = {"f32", "f16", "bf16"};
  std::printf("gemm%s %-4s M=%5ld N=%5ld K=%5ld  %8.2f ms  %7.1f GFLOP/s  %3.0f %%\n",
              swiglu ? "+swiglu" : "", names[static_cast<int>(type)], static_cast<long>(m),
              static_cast<long>(n), static_cast<long>(k), seconds * 1e3, gflops,
              100.0 * gflops / peak);
}

// One head: `queries` rows that all see `keys` keys.
void BenchAttention(const KernelTable& isa, int64_t queries, int64_t keys, int64_t head_dim,
                    double peak) {
  const int64_t stride = 3 * head_dim;
  const int64_t rows = std::max(queries, keys);
  Floats qkv(rows * stride), out(queries * head_dim), scratch(AttentionScratchFloats(isa));
  const double seconds = Median([&] {
    for (int64_t begin = 0; begin < queries; begin += isa.attention_block_rows) {
      AttentionRows task;
      task.head_dim = head_dim;
      task.scale = 0.1f;
      task.queries = std::min<int64_t>(isa.attention_block_rows, queries - begin);
      task.q = qkv.get() + begin * stride;
      task.q_stride = stride;
      task.out = out.get() + begin * head_dim;
      task.out_stride = head_dim;
      task.limit = keys;
      task.k = qkv.get() + head_dim;
      task.v = qkv.get() + 2 * head_dim;
      task.kv_stride = stride;
      AttendRows(isa, task, scratch.get());
    }
  });
  const double gflops = 4.0 * static_cast<double>(queries * keys * head_dim) / seconds * 1e-9;
  std::printf("attention  queries=%5ld keys=%5ld D=%3ld  %8.3f ms  %7.1f GFLOP/s  %3.0f %%\n",
              static_cast<long>(queries), static_cast<long>(keys), static_cast<long>(head_dim),
              seconds * 1e3, gflops, 100.0 * gflops / peak);
}

int Main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // lines come as they are measured, into files too
  const KernelTable* isa = &BestIsa();
  if (argc > 1) {
    isa = nullptr;
    for (Isa candidate : {Isa::kGeneric, Isa::kAvx2, Isa::kAvx512}) {
      const KernelTable* table = TableFor(candidate);
      if (table != nullptr && std::string(argv[1]) == table->name) isa = table;
    }
    if (isa == nullptr) {
      std::printf("this machine has no kernels named %s\n", argv[1]);
      return 1;
    }
  }
  double peak = PeakGflops(*isa);
  std::printf("%s: FMA peak %.1f GFLOP/s on one thread, tile %d x %d\n", isa->name, peak, isa->mr,
              isa->nr);
  for (WeightType type : {WeightType::kF32, WeightType::kBF16, WeightType::kF16}) {
    for (int64_t m : {1, 16, 128, 512, 1024}) BenchGemm(*isa, type, m, 2560, 2048, false, peak);
    BenchGemm(*isa, type, 512, 2048, 11008, false, peak);
    BenchGemm(*isa, type, 1024, 6840, 1280, true, peak);
  }
  for (int64_t keys : {64, 1024, 4096})
    BenchAttention(*isa, std::min<int64_t>(keys, 1024), keys, 80, peak);
  BenchAttention(*isa, 512, 2048, 128, peak);
  const double after = PeakGflops(*isa);
  std::printf("FMA peak again: %.1f GFLOP/s (%+.0f %%)\n", after, 100.0 * (after / peak - 1.0));
  return 0;
}

}  // namespace
}  // namespace rserve::kernels

int main(int argc, char** argv) { return rserve::kernels::Main(argc, argv); }
