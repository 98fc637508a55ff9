// What actions cost, learned from their completions: for each kind of work a line "fixed + per
// token", fitted with forgetting. Integer arithmetic only, so that the same completions give the
// same rates everywhere.

#ifndef RSERVE_SRC_CORE_RATES_H_
#define RSERVE_SRC_CORE_RATES_H_

#include <cstdint>
#include <vector>

#include "absl/numeric/int128.h"
#include "rserve/cc/request_plan.h"

namespace rserve {

// How high the line lies is the mean of the last samples, each new one fading the older ones by a
// sixteenth: when all costs change, thirty samples later the old ones weigh a seventh. How the cost
// splits into fixed and per token is least squares with a longer memory, a 256th: samples of one
// size cost unlike amounts (attention over long prompts and short ones), and over a few samples
// that is far more than the fixed part. Samples that are all of one size say nothing of the split;
// it then stays as it was and both parts scale with the new samples.
class LinearFit {
 public:
  // `tokens` >= 1, `ns` >= 0; both are cut at 2^20 and 2^40.
  void Add(int64_t tokens, TimeNs ns);
  bool known() const { return known_; }
  TimeNs fixed_ns() const { return fixed_ns_; }
  // Of the recent samples; 0: there is none.
  TimeNs mean_ns() const { return recent_n_ > 0 ? static_cast<TimeNs>(recent_y_ / recent_n_) : 0; }
  // In 1/1024 ns, so that a fast device is not rounded away.
  int64_t per_token_q10() const { return per_token_q10_; }
  TimeNs At(int64_t tokens) const;
  TimeNs PerTokens(int64_t tokens) const;  // without the fixed part

 private:
  // `told`: what the split's samples say that the recent ones took. When that is off by a fourth
  // all costs have changed, and the split's samples are taken to have cost what they would now:
  // sizes change with the costs, and a mixture would look like a slope.
  void Follow(absl::int128 told);

  // Faded sums, scaled: recent ones, and those of the split.
  absl::int128 recent_n_ = 0, recent_x_ = 0, recent_y_ = 0;
  absl::int128 n_ = 0, x_ = 0, y_ = 0, xx_ = 0, xy_ = 0;
  bool known_ = false;
  TimeNs fixed_ns_ = 0;
  int64_t per_token_q10_ = 0;
};

class Rates {
 public:
  explicit Rates(int32_t stages) : stages_(static_cast<size_t>(stages)) {}

  void EncodeTook(int64_t tokens, TimeNs ns) { encode_.Add(tokens, ns); }
  // A micro-batch left the stage at `now_ns` after `ns`.
  void StageTook(int32_t stage, int64_t tokens, TimeNs ns, TimeNs now_ns);
  void RequestCame(int64_t prompt_tokens) { Fade(&prompt_, prompt_tokens, 1); }

  const LinearFit& encode() const { return encode_; }
  // The stage that takes longest for 2048 tokens.
  const LinearFit& slowest_stage() const { return stages_[slowest_]; }
  // Share of the time, in 1/1024, that the slowest stage needs for the tokens that come, what
  // micro-batches cost by themselves left out. 0 to 1000: it is never told to be full.
  int64_t load_q10() const;
  // Prompt tokens of a request, on average.
  int64_t mean_prompt_tokens() const { return prompt_.below > 0 ? Quotient(prompt_, 1) : 0; }
  // From the last chunk's end on stage 0 to the first token, for a chunk of `tokens`.
  TimeNs TailNs(int64_t tokens) const;

 private:
  // The ratio of two sums in which each new sample fades the older ones by a 256th.
  struct Faded {
    absl::int128 above = 0, below = 0;
  };
  static void Fade(Faded* sums, int64_t above, int64_t below);
  static int64_t Quotient(const Faded& sums, int64_t scale);

  LinearFit encode_;
  std::vector<LinearFit> stages_;
  size_t slowest_ = 0;
  Faded traffic_;  // tokens over nanoseconds, on stage 0
  Faded prompt_;   // tokens over requests
  TimeNs last_ns_ = 0;
};

// The largest r with r * r <= value; 0 for value <= 0.
int64_t IntegerSqrt(int64_t value);

}  // namespace rserve

#endif  // RSERVE_SRC_CORE_RATES_H_
