#include "src/sim/shared_machine.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace rserve::sim {
namespace {

// However many there are, something is done.
constexpr double kLeastRate = 0.05;

}  // namespace

double SharedMachine::Rate(const Action& action) const {
  const bool works = action.worker >= 0;
  const auto workers = static_cast<double>(workers_ - (works ? 1 : 0));
  const auto preparing = static_cast<double>(preparing_ - (works ? 0 : 1));
  return std::max(kLeastRate,
                  1 - action.slowed.by_worker * workers - action.slowed.by_prepare * preparing);
}

void SharedMachine::Advance(TimeNs now_ns) {
  const auto passed = static_cast<double>(now_ns - now_ns_);
  for (Action& action : running_) {
    action.left_ns = std::max(0.0, action.left_ns - passed * Rate(action));
  }
  now_ns_ = now_ns;
}

void SharedMachine::FindNext() {
  next_end_ns_ = kNever;
  for (size_t i = 0; i < running_.size(); ++i) {
    const TimeNs end_ns =
        now_ns_ + static_cast<TimeNs>(std::llround(running_[i].left_ns / Rate(running_[i])));
    if (end_ns >= next_end_ns_) continue;
    next_end_ns_ = end_ns;
    next_ = i;
  }
}

void SharedMachine::Start(TimeNs now_ns, uint64_t token, int32_t worker, TimeNs alone_ns,
                          SlowedBy slowed) {
  Advance(now_ns);
  running_.push_back({token, worker, now_ns, static_cast<double>(alone_ns), slowed});
  (worker >= 0 ? workers_ : preparing_) += 1;
  FindNext();
}

SharedMachine::Action SharedMachine::EndNext() {
  Advance(next_end_ns_);
  const Action ended = running_[next_];
  running_.erase(running_.begin() + static_cast<ptrdiff_t>(next_));
  (ended.worker >= 0 ? workers_ : preparing_) -= 1;
  FindNext();
  return ended;
}

}  // namespace rserve::sim
