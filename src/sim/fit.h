// Costs of a real engine, fitted to the times that its actions took, in the place of a model's
// shape and a calibration: what the simulator is checked with against a measurement.

#ifndef RSERVE_SRC_SIM_FIT_H_
#define RSERVE_SRC_SIM_FIT_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "rserve/cc/request_plan.h"

namespace rserve::sim {

// The share of its speed, 0 to 1, that an action loses for each other worker that is busy, and for
// each picture that is being prepared, while they are.
struct SlowedBy {
  double by_worker = 0;
  double by_prepare = 0;
};

// Nanoseconds that actions take when nothing else runs; every part at least 0.
struct FittedStage {
  double fixed_ns = 0;
  double token_ns = 0;
  double pair_ns = 0;      // for each pair of a token and one that it attends to
  double finished_ns = 0;  // for each prompt that ends: its logits and first token
  SlowedBy slowed;
};
struct FittedCosts {
  double front_end_ns = 0;  // from the submit until the request is queued
  double decision_ns = 0;   // from an action's end until what it lets start has started
  double prepare_ns = 0;    // of one picture ...
  double prepare_token_ns = 0;
  SlowedBy prepare_slowed;
  double encode_ns = 0;  // of one batch ...
  double encode_token_ns = 0;
  SlowedBy encode_slowed;
  std::vector<FittedStage> stages;
};

// One action, when it ran, and beside what.
struct ActionSample {
  enum class Kind : int32_t { kPrepare = 0, kEncode = 1, kStage = 2 } kind = Kind::kPrepare;
  int32_t stage = -1;
  int64_t tokens = 0;
  int64_t pairs = 0;     // kStage: AttentionPairs of its chunks
  int64_t finished = 0;  // kStage: prompts that end in it
  TimeNs ns = 0;
  int32_t worker = -1;  // -1: a media thread
  TimeNs begin_ns = 0;
  // Time of other workers, and of preparations, that passed while it ran; of two at once the sum.
  double beside_workers_ns = 0;
  double beside_prepares_ns = 0;
};

// Fills in what ran beside each action of one pass, from when they ran.
void FindNeighbours(absl::Span<ActionSample> pass);

// Median, over the actions of one pass that began within 5 ms of another's end, of the time from
// the last end before them; 0 if there are none.
double DecisionNs(absl::Span<const ActionSample> pass);

// Pairs of a chunk of `tokens` behind `past` ones.
inline int64_t AttentionPairs(int64_t tokens, int64_t past) {
  return tokens * past + tokens * (tokens + 1) / 2;
}

// Least squares with parts that are not negative: an action that takes w alone, beside others for
// the times t, takes w + the sum of their shares times t. What the samples do not tell apart (all
// of one size) goes to the part that grows with the tokens. Passes are measured one after the other
// on a machine whose speed may drift, so each has a pace of its own, by which its times are
// divided; the costs are those at the mean pace.
FittedCosts FitCosts(absl::Span<const std::vector<ActionSample>> passes, int32_t stages);

// How long actions took over what they take at some costs. Of encodes and of micro-batches, because
// they may run on different cores, which are not always equally fast.
struct Pace {
  double encode = 1;
  double stage = 1;
};

// That of the actions of a pass, what they lost to those beside them left out; 1 where there are
// none.
Pace PaceOf(const FittedCosts& costs, absl::Span<const ActionSample> pass);

// The costs of encodes and micro-batches on a machine of that pace.
FittedCosts AtPace(FittedCosts costs, const Pace& pace);

}  // namespace rserve::sim

#endif  // RSERVE_SRC_SIM_FIT_H_
