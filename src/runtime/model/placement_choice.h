// Whether an adaptive engine of one stage splits its cores between encoder and stage or lets both
// use all of them, from measured rates.
//
// Let e be the time that encoding takes with all cores over the time it takes with the encoder's
// part of them while the stage computes on its own (they share caches and memory), and p the same
// for prefill. A request that takes x to encode and y to prefill on
// the parts keeps split cores busy for max(x, y) and shared ones for e x + p y. What x and y will
// be is not known when the engine is made and changes with the traffic, so the choice is the one
// that can lose less: against the other, sharing is worst when x = y, by e + p; splitting when
// there is only one kind of work, by 1 / min(e, p). Where cores scale well (e = p = 1/2 on two)
// sharing never loses; it does where more cores help little.

#ifndef RSERVE_SRC_RUNTIME_MODEL_PLACEMENT_CHOICE_H_
#define RSERVE_SRC_RUNTIME_MODEL_PLACEMENT_CHOICE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "rserve/cc/model_engine.h"
#include "rserve/cc/request_plan.h"
#include "src/backend/cpu/cpu_model.h"

namespace rserve::runtime {

// e and p.
struct CoreScaling {
  double encode = 1;
  double prefill = 1;
};
// Ties are shared.
bool SharingLosesLess(const CoreScaling& scaling);

// The least of a time that is measured again and again. Other work on the machine only adds to a
// time, so the least is what the cores can do, but a first one may be disturbed as a whole: what
// has come twice is believed.
class LeastTime {
 public:
  // A round's time, at least 0.
  void Add(TimeNs ns);
  // The second least is within a 32nd of the least.
  bool confirmed() const;
  TimeNs ns() const { return least_ns_; }  // kNever before the first

 private:
  TimeNs least_ns_ = kNever;
  TimeNs second_ns_ = kNever;
};

// Times one small picture and one chunk through one layer, with the cores and threads that the
// workers of either placement would have, in rounds for at least 200 ms (or 40 rounds), then until
// every time is confirmed or 1.5 s are over. Takes a fraction of the time that loading takes.
absl::StatusOr<CoreScaling> MeasureScaling(const ModelEngineOptions& options,
                                           const std::shared_ptr<const cpu::CpuModel>& model,
                                           absl::Span<const int> usable);

// ModelEngineOptions::encoders, or what stands for its 0 under Scheme::kAdaptive: kSharedEncoder or
// 1 as far as that needs no measuring. More than one stage or rank and other backends than the CPU
// have an encoder of its own, a single core is shared, and lists of threads or cores say it by
// their length.
std::optional<int32_t> EncodersWithoutMeasuring(const ModelEngineOptions& options,
                                                absl::Span<const int> usable);

// The same by measuring; `reason` says what came out, for a log.
absl::StatusOr<int32_t> MeasureEncoders(const ModelEngineOptions& options,
                                        const std::shared_ptr<const cpu::CpuModel>& model,
                                        absl::Span<const int> usable, std::string* reason);

}  // namespace rserve::runtime

#endif  // RSERVE_SRC_RUNTIME_MODEL_PLACEMENT_CHOICE_H_
