#include "tools/rserve/machine_speed.h"

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/cpu/isa.h"
#include "tests/support/catch.h"

namespace rserve::tool {
namespace {

// Nothing is asked of how fast the machine is or how quiet, only of what is counted.
TEST_CASE("work is timed as often as asked, and longer only for runs that were alone") {
  const std::unique_ptr<cpu::ThreadPool> pool = MakePool(1, UsableCores());
  MachineSpeed machine(kernels::BestIsa(), pool.get());
  int64_t first = 0, second = 0;
  const auto count_first = [&] { ++first; };
  const auto count_second = [&] { ++second; };
  const Contender contenders[] = {{&machine, count_first}, {&machine, count_second}};

  std::vector<Timed> timed = TimeInTurn(contenders, {3, 0});
  CHECK(first == 4);  // one uncounted
  CHECK(second == 4);
  REQUIRE(timed.size() == 2);
  for (const Timed& one : timed) {
    CHECK(one.all.repeats == 3);
    CHECK(one.all.fma_flops > 0);
    CHECK(one.alone.repeats <= 3);
    CHECK((one.alone.repeats > 0) == (one.alone.fma_flop > 0));
  }
  CHECK(timed[0].all.speedup == 1);

  first = second = 0;
  timed = TimeInTurn(contenders, {2, 1'000'000});
  CHECK(first == 2 * Repeats::kMostTimes + 1);
  CHECK(timed[1].all.repeats == 2 * Repeats::kMostTimes);
}

TEST_CASE("the peak is measured on every thread and the best moment is kept") {
  const std::unique_ptr<cpu::ThreadPool> pool = MakePool(2, UsableCores());
  MachineSpeed machine(kernels::BestIsa(), pool.get());
  CHECK(machine.best_issue() == 0);
  double best = 0;
  for (int i = 0; i < 3; ++i) {
    const Peak peak = machine.MeasurePeak(0);
    CHECK(peak.fma_flops > 0);
    CHECK(peak.issue > 0);
    best = peak.issue > best ? peak.issue : best;
    CHECK(machine.best_issue() == best);
  }
}

}  // namespace
}  // namespace rserve::tool
