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

// What all threads together could do at best over some time.
struct Peak {
  double fma_flops = 0;  // FLOP/s
  // How many instructions the slowest thread's core took in the time of one integer multiplication
  // that waits for the one before. A core whose other hardware thread is busy (a neighbour's, on a
  // rented machine) may still multiply at its full rate, but takes fewer instructions: 6 a cycle
  // become about 3.5.
  double issue = 0;
};

// The limits of the machine with all threads of a pool at work. `pool` is borrowed.
class MachineSpeed {
 public:
  MachineSpeed(const kernels::KernelTable& isa, cpu::ThreadPool* pool);

  // Independent fused multiply-adds in registers, and now and then instructions that do nothing,
  // for `seconds` or a little more.
  Peak MeasurePeak(double seconds);
  // The largest Peak::issue so far.
  double best_issue() const { return best_issue_; }
  // One run of a[i] = b[i] + 3 c[i] over arrays larger than caches commonly are; bytes read and
  // written a second, as programs see them.
  double TriadBytes();

 private:
  // fn(thread) once on every thread, all at the same time.
  void OnEveryThread(absl::FunctionRef<void(int64_t)> fn);

  const kernels::KernelTable& isa_;
  cpu::ThreadPool* pool_;
  double best_issue_ = 0;
  std::vector<float> a_, b_, c_;
};

// Medians over repeats of one piece of work; zeros where there are none.
struct Medians {
  int64_t repeats = 0;
  double seconds = 0;
  double fma_flops = 0;  // FLOP/s of the FMA peak beside a repeat
  double fma_flop = 0;   // FLOP that the peak would have come to in the time of a repeat
  double speedup = 0;    // how many times as fast as the first contender of the same round
};
struct Timed {
  Medians all;
  // Of those repeats before and after which every core took at least 0.8 of the instructions of the
  // best moment so far, so had no busy neighbour; for `speedup` the first contender's as well.
  // What is slow in itself does not leave it, as picking the fastest would let it.
  Medians alone;
};

// What is measured, and the machine with the threads that do it. Both are borrowed.
struct Contender {
  MachineSpeed* machine = nullptr;
  absl::FunctionRef<void()> work;
};

struct Repeats {
  int64_t all = 1;                           // at least
  int64_t alone = 0;                         // go on until as many of each contender were alone,
  static constexpr int64_t kMostTimes = 10;  // for at most so many times `all`
};

// Each contender once uncounted, then rounds in which each runs once, in turn: a machine whose
// speed drifts is equally slow for all of a round. The peak is measured before and after each run,
// together for half as long as the run: the clock of a core under vector work changes within
// milliseconds, so a peak that is measured for one millisecond says little about the second next
// to it.
std::vector<Timed> TimeInTurn(absl::Span<const Contender> contenders, const Repeats& repeats);
Timed TimeWork(MachineSpeed* machine, const Repeats& repeats, absl::FunctionRef<void()> work);

double Seconds(absl::FunctionRef<void()> work);

}  // namespace rserve::tool

#endif  // RSERVE_TOOLS_RSERVE_MACHINE_SPEED_H_
