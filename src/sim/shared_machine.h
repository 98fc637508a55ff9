// Actions of a fitted run that slow each other down. Workers of one machine share its memory, its
// caches and, with the threads that prepare pictures, its cores: an action that takes w alone makes
// progress at the rate 1 - (for each other worker that is busy, and for each picture that is being
// prepared, the share that the fit found). Rates change only when an action starts or ends, so
// every end is found exactly, between two events.

#ifndef RSERVE_SRC_SIM_SHARED_MACHINE_H_
#define RSERVE_SRC_SIM_SHARED_MACHINE_H_

#include <cstdint>
#include <vector>

#include "rserve/cc/request_plan.h"
#include "src/sim/fit.h"

namespace rserve::sim {

class SharedMachine {
 public:
  struct Action {
    uint64_t token = 0;
    int32_t worker = -1;  // one action at a time each; -1: a media thread, any number
    TimeNs begin_ns = 0;
    double left_ns = 0;  // alone
    SlowedBy slowed;
  };

  // `now_ns` never goes back, and is never past next_end_ns().
  void Start(TimeNs now_ns, uint64_t token, int32_t worker, TimeNs alone_ns, SlowedBy slowed);
  // When the first of the running actions ends if nothing else starts; kNever: none runs.
  TimeNs next_end_ns() const { return next_end_ns_; }
  // Takes out the action that ends at next_end_ns(), of several the one that began first.
  Action EndNext();

 private:
  void Advance(TimeNs now_ns);
  void FindNext();
  double Rate(const Action& action) const;

  std::vector<Action> running_;
  int64_t workers_ = 0, preparing_ = 0;  // of running_
  TimeNs now_ns_ = 0;
  TimeNs next_end_ns_ = kNever;
  size_t next_ = 0;
};

}  // namespace rserve::sim

#endif  // RSERVE_SRC_SIM_SHARED_MACHINE_H_
