// How fast this machine is at best, measured beside the work whose speed is asked for: shared
// machines and warm ones change by the minute, so a share of the peak means something only when
// both were measured together.

#ifndef RSERVE_TOOLS_RSERVE_MACHINE_SPEED_H_
#define RSERVE_TOOLS_RSERVE_MACHINE_SPEED_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "kernels/cpu/isa.h"
#include "src/backend/cpu/thread_pool.h"

namespace rserve::tool {

// The kernels of that name, of those this machine runs; "" or "best": the fastest. INVALID_ARGUMENT
// names the choices.
absl::StatusOr<const kernels::KernelTable*> FindKernels(absl::string_view name);

// The cores that this process may use.
std::vector<int> UsableCores();
// Threads for a measurement, the calling one among them: a core each, as a worker of the engine has
// them, where there are enough.
std::unique_ptr<cpu::ThreadPool> MakePool(int threads, const std::vector<int>& cores);

// The limits of the machine with all threads of a pool at work. `pool` is borrowed.
class MachineSpeed {
 public:
  MachineSpeed(const kernels::KernelTable& isa, cpu::ThreadPool* pool);

  // Independent fused multiply-adds in registers for `seconds` or a little more: FLOP/s, the mean
  // over that time.
  double FmaFlops(double seconds);
  // One run of a[i] = b[i] + 3 c[i] over arrays larger than caches commonly are; bytes read and
  // written a second, as programs see them.
  double TriadBytes();

 private:
  // fn(thread) once on every thread, all at the same time.
  void OnEveryThread(absl::FunctionRef<void(int64_t)> fn);

  const kernels::KernelTable& isa_;
  cpu::ThreadPool* pool_;
  std::vector<float> a_, b_, c_;
};

// Medians over the repeats of one piece of work.
struct Timed {
  double seconds = 0;
  double fma_flops = 0;  // FLOP/s of the FMA peak beside a repeat
  double fma_flop = 0;   // FLOP that the peak would have come to in the time of a repeat
  double speedup = 1;    // how many times as fast as the first contender of the same round
  // What the greatest of the peaks would have come to in the least of the times. Others that use
  // the machine only add to a time, so beside `fma_flop` it says how much they did.
  double least_fma_flop = 0;
};

// What is measured, and the machine with the threads that do it. Both are borrowed.
struct Contender {
  MachineSpeed* machine = nullptr;
  absl::FunctionRef<void()> work;
};

// Each contender once uncounted, then `repeats` rounds in which each runs once, in turn: a machine
// whose speed drifts is equally slow for all of a round. The FMA peak is measured before and after
// each run, together for half as long as the run: the clock of a core under vector work changes
// within milliseconds, so a peak that is measured for one millisecond says little about the second
// next to it.
std::vector<Timed> TimeInTurn(absl::Span<const Contender> contenders, int64_t repeats);
Timed TimeWork(MachineSpeed* machine, int64_t repeats, absl::FunctionRef<void()> work);

double Seconds(absl::FunctionRef<void()> work);

}  // namespace rserve::tool

#endif  // RSERVE_TOOLS_RSERVE_MACHINE_SPEED_H_
