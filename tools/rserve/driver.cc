#include "tools/rserve/driver.h"

#include <poll.h>

#include <algorithm>
#include <ctime>
#include <unordered_map>

namespace rserve::tool {
namespace {

void WaitUntil(int fd, TimeNs wake_ns) {
  pollfd entry = {fd, POLLIN, 0};
  if (wake_ns == kNever) {
    ppoll(&entry, 1, nullptr, nullptr);
    return;
  }
  const TimeNs wait_ns = std::max<TimeNs>(wake_ns - Engine::now_ns(), 0);
  constexpr TimeNs kSecond = 1'000'000'000;
  const timespec timeout = {static_cast<time_t>(wait_ns / kSecond),
                            static_cast<long>(wait_ns % kSecond)};
  ppoll(&entry, 1, &timeout, nullptr);
}

}  // namespace

std::vector<Outcome> Drive(Target& target, absl::Span<const TimeNs> arrival_ns,
                           const std::function<void(size_t index, RequestId id)>& ended) {
  std::vector<Outcome> outcomes(arrival_ns.size());
  std::unordered_map<RequestId, size_t> index_of;
  const TimeNs start_ns = Engine::now_ns();
  size_t next = 0, open = 0;
  std::vector<Event> events;
  while (next < arrival_ns.size() || open > 0) {
    while (next < arrival_ns.size() && start_ns + arrival_ns[next] <= Engine::now_ns()) {
      Outcome& outcome = outcomes[next];
      const absl::StatusOr<RequestId> id = target.Submit(next);
      if (id.ok()) {
        outcome.id = *id;
        index_of[*id] = next;
        ++open;
      } else {
        outcome.status = id.status();
      }
      ++next;
    }
    events.clear();
    target.Poll(256, &events);
    for (Event& event : events) {
      const auto it = index_of.find(event.request);
      if (it == index_of.end()) continue;
      Outcome& outcome = outcomes[it->second];
      if (event.type == EventType::kFirstToken) outcome.first_token = event.first_token;
      if (!IsTerminal(event.type)) continue;
      outcome.status = event.status;
      outcome.times = event.times;
      --open;
      if (ended) ended(it->second, event.request);
    }
    if (!events.empty()) continue;
    const TimeNs arrival = next < arrival_ns.size() ? start_ns + arrival_ns[next] : kNever;
    if (open > 0 || arrival != kNever) {
      WaitUntil(target.wait_fd(), std::min(arrival, target.next_deadline_ns()));
    }
  }
  return outcomes;
}

}  // namespace rserve::tool
