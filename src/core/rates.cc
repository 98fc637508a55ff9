#include "src/core/rates.h"

#include <algorithm>

namespace rserve {
namespace {

constexpr int64_t kScale = 1 << 12;  // of one sample's weight
constexpr int64_t kFade = 16;        // of the level
constexpr int64_t kSplitFade = 256;  // of the split

int64_t ToInt64(absl::int128 value) {
  constexpr int64_t kMost = int64_t{1} << 62;
  if (value > kMost) return kMost;
  return static_cast<int64_t>(value);
}

}  // namespace

void LinearFit::Add(int64_t tokens, TimeNs ns) {
  const absl::int128 x = std::clamp<int64_t>(tokens, 1, int64_t{1} << 20);
  const absl::int128 y = std::clamp<int64_t>(ns, 0, int64_t{1} << 40);
  const auto fold = [](absl::int128& sum, absl::int128 value, int64_t fade) {
    sum += value * kScale - sum / fade;
  };
  fold(recent_n_, 1, kFade);
  fold(recent_x_, x, kFade);
  fold(recent_y_, y, kFade);
  fold(n_, 1, kSplitFade);
  fold(x_, x, kSplitFade);
  fold(y_, y, kSplitFade);
  fold(xx_, x * x, kSplitFade);
  fold(xy_, x * y, kSplitFade);

  const absl::int128 spread = n_ * xx_ - x_ * x_;
  // Sizes that differ by a sixteenth of their mean or more tell the two parts apart.
  const bool tells = spread * 256 >= x_ * x_ && spread > 0;
  if (tells) {
    const absl::int128 rise = n_ * xy_ - x_ * y_;
    absl::int128 slope_q10 = rise > 0 ? rise * 1024 / spread : 0;
    absl::int128 fixed = (y_ - slope_q10 * x_ / 1024) / n_;
    if (fixed < 0) {
      fixed = 0;
      slope_q10 = y_ * 1024 / x_;
    }
    fixed_ns_ = ToInt64(fixed);
    per_token_q10_ = ToInt64(slope_q10);
    known_ = true;
  }
  const absl::int128 line =
      absl::int128(fixed_ns_) * recent_n_ + absl::int128(per_token_q10_) * recent_x_ / 1024;
  Follow(tells ? line : y_ * recent_x_ / x_);
  if (line > 0) {
    fixed_ns_ = ToInt64(absl::int128(fixed_ns_) * recent_y_ / line);
    per_token_q10_ = ToInt64(absl::int128(per_token_q10_) * recent_y_ / line);
  } else {
    per_token_q10_ = ToInt64(recent_y_ * 1024 / recent_x_);
  }
}

void LinearFit::Follow(absl::int128 told) {
  if (told <= 0 || (recent_y_ * 4 <= told * 5 && recent_y_ * 5 >= told * 4)) return;
  const int64_t ratio_q10 = std::clamp<int64_t>(ToInt64(recent_y_ * 1024 / told), 1, 1 << 20);
  // No sum grows beyond what samples at their limit would make it.
  if (y_ * ratio_q10 / 1024 > n_ * (int64_t{1} << 40)) return;
  y_ = y_ * ratio_q10 / 1024;
  xy_ = xy_ * ratio_q10 / 1024;
}

TimeNs LinearFit::PerTokens(int64_t tokens) const {
  return ToInt64(absl::int128(per_token_q10_) * tokens / 1024);
}

TimeNs LinearFit::At(int64_t tokens) const { return fixed_ns_ + PerTokens(tokens); }

void Rates::Fade(Faded* sums, int64_t above, int64_t below) {
  constexpr int64_t kShare = 256;
  sums->above += absl::int128(above) * kScale - sums->above / kShare;
  sums->below += absl::int128(below) * kScale - sums->below / kShare;
}

int64_t Rates::Quotient(const Faded& sums, int64_t scale) {
  return sums.below > 0 ? ToInt64(sums.above * scale / sums.below) : 0;
}

int64_t Rates::load_q10() const {
  // Tokens a second (in 2^30 ns) times ns a token.
  const int64_t tokens = Quotient(traffic_, int64_t{1} << 30);
  const absl::int128 load = absl::int128(slowest_stage().per_token_q10()) * tokens >> 30;
  return std::min<int64_t>(ToInt64(load), 1000);
}

void Rates::StageTook(int32_t stage, int64_t tokens, TimeNs ns, TimeNs now_ns) {
  if (stage == 0) {
    if (last_ns_ > 0) Fade(&traffic_, tokens, std::min(now_ns - last_ns_, int64_t{1} << 40));
    last_ns_ = now_ns;
  }
  stages_[static_cast<size_t>(stage)].Add(tokens, ns);
  constexpr int64_t kTokens = 2048;
  for (size_t s = 0; s < stages_.size(); ++s) {
    if (stages_[s].At(kTokens) > stages_[slowest_].At(kTokens)) slowest_ = s;
  }
}

TimeNs Rates::TailNs(int64_t tokens) const {
  TimeNs ns = 0;
  for (size_t s = 1; s < stages_.size(); ++s) ns += stages_[s].At(tokens);
  return ns;
}

int64_t IntegerSqrt(int64_t value) {
  if (value <= 0) return 0;
  int64_t root = 0;
  for (int64_t bit = int64_t{1} << 31; bit > 0; bit >>= 1) {
    const int64_t next = root + bit;
    if (next <= value / next) root = next;
  }
  return root;
}

}  // namespace rserve
