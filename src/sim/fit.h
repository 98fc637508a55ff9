// Costs of a real engine, fitted to the times that its actions took, in the place of a model's
// shape and a calibration: what the simulator is checked with against a measurement.

#ifndef RSERVE_SRC_SIM_FIT_H_
#define RSERVE_SRC_SIM_FIT_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "rserve/cc/request_plan.h"

namespace rserve::sim {

// Nanoseconds; every part at least 0.
struct FittedStage {
  double fixed_ns = 0;
  double token_ns = 0;
  double pair_ns = 0;      // for each pair of a token and one that it attends to
  double finished_ns = 0;  // for each prompt that ends: its logits and first token
};
struct FittedCosts {
  double front_end_ns = 0;  // from the submit until the request is queued
  double prepare_ns = 0;    // of one picture ...
  double prepare_token_ns = 0;
  double encode_ns = 0;  // of one batch ...
  double encode_token_ns = 0;
  std::vector<FittedStage> stages;
};

// One action and how long it took.
struct ActionSample {
  enum class Kind : int32_t { kPrepare = 0, kEncode = 1, kStage = 2 } kind = Kind::kPrepare;
  int32_t stage = -1;
  int64_t tokens = 0;
  int64_t pairs = 0;     // kStage: AttentionPairs of its chunks
  int64_t finished = 0;  // kStage: prompts that end in it
  TimeNs ns = 0;
};

// Pairs of a chunk of `tokens` behind `past` ones.
inline int64_t AttentionPairs(int64_t tokens, int64_t past) {
  return tokens * past + tokens * (tokens + 1) / 2;
}

// Least squares with parts that are not negative. What the samples do not tell apart (all of one
// size) goes to the part that grows with the tokens.
FittedCosts FitCosts(absl::Span<const ActionSample> samples, int32_t stages);

}  // namespace rserve::sim

#endif  // RSERVE_SRC_SIM_FIT_H_
