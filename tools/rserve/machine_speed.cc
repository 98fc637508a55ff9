#include "tools/rserve/machine_speed.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tools/rserve/bench_run.h"

namespace rserve::tool {
namespace {

constexpr int64_t kFmaIterations = 10'000;  // 0.1 to 0.2 ms
constexpr int64_t kFewestSlices = 5;  // the median is then not one that an interrupt stretched
// Some 20 us each, so that the core keeps the clock of vector work.
constexpr int64_t kIdleInstructions = int64_t{64} * 4096;
constexpr int64_t kChainSteps = 16'384;
constexpr double kAlone = 0.8;  // see Timed::alone
// 64 MiB each; three of them.
constexpr int64_t kTriadFloats = int64_t{16} << 20;

// Each multiplication waits for the one before, so their time is the core's clock whoever else
// uses the core.
void MultiplyInAChain() {
  uint64_t x = 1;
  for (int64_t i = 0; i < kChainSteps; ++i) {
    x *= 0x9E3779B97F4A7C15;
    asm volatile("" : "+r"(x));
  }
}

void IssueIdleInstructions() {
  for (int64_t i = 0; i < kIdleInstructions; i += 64) asm volatile(".rept 64\n\tnop\n\t.endr");
}

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

Peak MachineSpeed::MeasurePeak(double seconds) {
  // Each thread's own time, from when all have come: waking them is not the machine's speed.
  std::vector<Peak> own(static_cast<size_t>(pool_->threads()));
  std::atomic<float> sink{0.0f};
  OnEveryThread([&](int64_t thread) {
    constexpr double kFmas = kFmaIterations * kernels::kFmaPeakStep;
    double all = 0, multiplying = 0;
    std::vector<double> issue;
    while (all < seconds || static_cast<int64_t>(issue.size()) < kFewestSlices) {
      const double fma_seconds =
          Seconds([&] { sink.store(isa_.fma_peak(kFmaIterations), std::memory_order_relaxed); });
      const double chain_seconds = Seconds(&MultiplyInAChain);
      const double idle_seconds = Seconds(&IssueIdleInstructions);
      multiplying += fma_seconds;
      all += fma_seconds + chain_seconds + idle_seconds;
      issue.push_back(kIdleInstructions / idle_seconds * chain_seconds / kChainSteps);
    }
    const double fmas = kFmas * static_cast<double>(issue.size());
    own[static_cast<size_t>(thread)] = {fmas * isa_.lanes * 2 / multiplying,
                                        Median(std::move(issue))};
  });
  Peak peak = {0, own.front().issue};
  for (const Peak& one : own) {
    peak.fma_flops += one.fma_flops;
    peak.issue = std::min(peak.issue, one.issue);
  }
  best_issue_ = std::max(best_issue_, peak.issue);
  return peak;
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

namespace {

struct Sample {
  double seconds = 0, fma_flops = 0;
  double issue = 0;  // the less of before and after
  double speedup = 0;
};

struct Samples {
  std::vector<double> seconds, fma_flops, fma_flop, speedup;
  void Add(const Sample& sample) {
    seconds.push_back(sample.seconds);
    fma_flops.push_back(sample.fma_flops);
    fma_flop.push_back(sample.fma_flops * sample.seconds);
  }
  Medians Take() {
    Medians out;
    out.repeats = static_cast<int64_t>(seconds.size());
    const auto median = [](std::vector<double>* values) {
      return values->empty() ? 0.0 : Median(std::move(*values));
    };
    out.seconds = median(&seconds);
    out.fma_flops = median(&fma_flops);
    out.fma_flop = median(&fma_flop);
    out.speedup = median(&speedup);
    return out;
  }
};

}  // namespace

std::vector<Timed> TimeInTurn(absl::Span<const Contender> contenders, const Repeats& repeats) {
  constexpr double kShareOfRun = 0.25, kMinSeconds = 0.5e-3, kMaxSeconds = 0.5;
  std::vector<double> probe_seconds;
  for (const Contender& contender : contenders) {
    const double seconds = Seconds(contender.work);
    probe_seconds.push_back(std::clamp(kShareOfRun * seconds, kMinSeconds, kMaxSeconds));
  }
  std::vector<std::vector<Sample>> rounds;
  const auto alone = [&](const std::vector<Sample>& samples, size_t i) {
    return samples[i].issue >= kAlone * contenders[i].machine->best_issue();
  };
  const auto enough = [&] {
    const auto done = static_cast<int64_t>(rounds.size());
    if (done < repeats.all) return false;
    if (done >= repeats.all * Repeats::kMostTimes) return true;
    for (size_t i = 0; i < contenders.size(); ++i) {
      const auto quiet = [&](const auto& samples) { return alone(samples, i); };
      if (std::count_if(rounds.begin(), rounds.end(), quiet) < repeats.alone) return false;
    }
    return true;
  };
  while (!enough()) {
    std::vector<Sample> samples;
    for (const Contender& contender : contenders) {
      const double probe = probe_seconds[samples.size()];
      const Peak before = contender.machine->MeasurePeak(probe);
      const double seconds = Seconds(contender.work);
      const Peak after = contender.machine->MeasurePeak(probe);
      samples.push_back({seconds, (before.fma_flops + after.fma_flops) / 2,
                         std::min(before.issue, after.issue), 0});
      samples.back().speedup = samples.front().seconds / seconds;
    }
    rounds.push_back(std::move(samples));
  }
  std::vector<Timed> out;
  for (size_t i = 0; i < contenders.size(); ++i) {
    Samples all, quiet;
    for (const std::vector<Sample>& samples : rounds) {
      all.Add(samples[i]);
      all.speedup.push_back(samples[i].speedup);
      if (!alone(samples, i)) continue;
      quiet.Add(samples[i]);
      if (alone(samples, 0)) quiet.speedup.push_back(samples[i].speedup);
    }
    out.push_back({all.Take(), quiet.Take()});
  }
  return out;
}

Timed TimeWork(MachineSpeed* machine, const Repeats& repeats, absl::FunctionRef<void()> work) {
  return TimeInTurn({{machine, work}}, repeats).front();
}

}  // namespace rserve::tool
