#include "tools/rserve/machine_speed.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <numeric>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tools/rserve/bench_run.h"

namespace rserve::tool {
namespace {

constexpr int64_t kFmaIterations = 50'000;
// 64 MiB each; three of them.
constexpr int64_t kTriadFloats = int64_t{16} << 20;

}  // namespace

absl::StatusOr<const kernels::KernelTable*> FindKernels(absl::string_view name) {
  if (name.empty() || name == "best") return &kernels::BestIsa();
  std::vector<std::string> known = {"best"};
  for (const kernels::Isa isa : kernels::kAllIsas) {
    const kernels::KernelTable* table = kernels::TableFor(isa);
    if (table == nullptr) continue;
    if (name == table->name) return table;
    known.push_back(table->name);
  }
  return absl::InvalidArgumentError(absl::StrCat("this machine has no kernels named '", name,
                                                 "'; it has ", absl::StrJoin(known, ", ")));
}

std::vector<int> UsableCores() {
  std::vector<int> cores;
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) {
    for (int core = 0; core < CPU_SETSIZE; ++core) {
      if (CPU_ISSET(core, &set)) cores.push_back(core);
    }
  }
  return cores;
}

std::unique_ptr<cpu::ThreadPool> MakePool(int threads, const std::vector<int>& cores) {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (static_cast<size_t>(threads) > cores.size()) {
    for (const int core : cores) CPU_SET(core, &set);
    sched_setaffinity(0, sizeof(set), &set);
    return std::make_unique<cpu::ThreadPool>(threads, std::vector<int>());
  }
  // Where the system refuses, threads move between cores: slower, not wrong.
  CPU_SET(cores[0], &set);
  sched_setaffinity(0, sizeof(set), &set);
  return std::make_unique<cpu::ThreadPool>(threads, cores);
}

MachineSpeed::MachineSpeed(const kernels::KernelTable& isa, cpu::ThreadPool* pool)
    : isa_(isa), pool_(pool) {}

void MachineSpeed::OnEveryThread(absl::FunctionRef<void(int64_t)> fn) {
  // A thread that has begun a task waits for the others, so none can take two.
  std::atomic<int> missing{pool_->threads()};
  pool_->ParallelFor(pool_->threads(), [&](int64_t thread) {
    missing.fetch_sub(1);
    while (missing.load() > 0) std::this_thread::yield();
    fn(thread);
  });
}

double MachineSpeed::FmaFlops(double seconds) {
  // Each thread's own time, from when all have come: waking them is not the machine's speed.
  std::vector<double> flops(static_cast<size_t>(pool_->threads()));
  std::atomic<float> sink{0.0f};
  OnEveryThread([&](int64_t thread) {
    double own = 0;
    int64_t runs = 0;
    for (; own < seconds || runs == 0; ++runs) {
      own += Seconds([&] { sink.store(isa_.fma_peak(kFmaIterations), std::memory_order_relaxed); });
    }
    flops[static_cast<size_t>(thread)] =
        static_cast<double>(runs * kFmaIterations * kernels::kFmaPeakStep * isa_.lanes * 2) / own;
  });
  return std::accumulate(flops.begin(), flops.end(), 0.0);
}

double MachineSpeed::TriadBytes() {
  if (a_.empty()) {
    for (std::vector<float>* array : {&a_, &b_, &c_}) array->assign(kTriadFloats, 1.0f);
  }
  const double seconds = Seconds([&] {
    OnEveryThread([&](int64_t thread) {
      const int64_t threads = pool_->threads();
      const int64_t begin = kTriadFloats * thread / threads;
      const int64_t end = kTriadFloats * (thread + 1) / threads;
      float* a = a_.data();
      const float* b = b_.data();
      const float* c = c_.data();
      for (int64_t i = begin; i < end; ++i) a[i] = b[i] + 3.0f * c[i];
    });
  });
  return static_cast<double>(3 * kTriadFloats * int64_t{sizeof(float)}) / seconds;
}

double Seconds(absl::FunctionRef<void()> work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

std::vector<Timed> TimeInTurn(absl::Span<const Contender> contenders, int64_t repeats) {
  constexpr double kShareOfRun = 0.25, kMinSeconds = 0.5e-3, kMaxSeconds = 0.5;
  std::vector<double> probe_seconds;
  for (const Contender& contender : contenders) {
    const double seconds = Seconds(contender.work);
    probe_seconds.push_back(std::clamp(kShareOfRun * seconds, kMinSeconds, kMaxSeconds));
  }
  struct Samples {
    std::vector<double> seconds, fma_flops, fma_flop, speedup;
  };
  std::vector<Samples> all(contenders.size());
  for (int64_t round = 0; round < repeats; ++round) {
    for (size_t i = 0; i < contenders.size(); ++i) {
      const double before = contenders[i].machine->FmaFlops(probe_seconds[i]);
      const double seconds = Seconds(contenders[i].work);
      const double after = contenders[i].machine->FmaFlops(probe_seconds[i]);
      const double flops = (before + after) / 2;
      all[i].seconds.push_back(seconds);
      all[i].fma_flops.push_back(flops);
      all[i].fma_flop.push_back(flops * seconds);
      all[i].speedup.push_back(all.front().seconds.back() / seconds);
    }
  }
  std::vector<Timed> out;
  for (Samples& samples : all) {
    const double least = *std::min_element(samples.seconds.begin(), samples.seconds.end()) *
                         *std::max_element(samples.fma_flops.begin(), samples.fma_flops.end());
    out.push_back({Median(std::move(samples.seconds)), Median(std::move(samples.fma_flops)),
                   Median(std::move(samples.fma_flop)), Median(std::move(samples.speedup)), least});
  }
  return out;
}

Timed TimeWork(MachineSpeed* machine, int64_t repeats, absl::FunctionRef<void()> work) {
  return TimeInTurn({{machine, work}}, repeats).front();
}

}  // namespace rserve::tool
