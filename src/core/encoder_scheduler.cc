#include "rserve/cc/encoder_scheduler.h"

#include <algorithm>
#include <cstddef>

namespace rserve {
namespace {

enum class UnitState { kWaiting, kPreparing, kReady, kIssued };

// Why gathering stopped; all but kComing close the batch.
enum class Stop {
  kEnd,      // the request has no unit left
  kFull,     // C reached
  kMax,      // the next unit would exceed max_batch_tokens
  kNoPlace,  // the next unit has no place
  kComing,   // the next unit is being prepared
};

}  // namespace

struct EncoderScheduler::Request {
  struct Unit {
    int32_t unit = 0;
    int64_t tokens = 0;
    UnitState state = UnitState::kWaiting;
    TimeNs ready_ns = 0;
  };
  uint64_t order = 0;
  TimeNs due_ns = 0;
  std::vector<Unit> units;                            // in prompt order
  size_t next_waiting = 0;                            // the first unit without a place
  size_t next_issue = 0;                              // the first unit that is not issued
  std::vector<std::pair<int32_t, size_t>> by_number;  // (unit number, index into units), sorted

  Unit& Find(int32_t unit) { return units[IndexOf(unit)]; }
  size_t IndexOf(int32_t unit) const {
    return std::lower_bound(by_number.begin(), by_number.end(), std::make_pair(unit, size_t{0}))
        ->second;
  }
};

struct EncoderScheduler::Gathered {
  int64_t tokens = 0;
  TimeNs since_ns = kNever;  // when the batch's first unit became ready
  Stop stop = Stop::kEnd;
};

EncoderScheduler::EncoderScheduler(const EncoderSchedulerOptions& options)
    : options_(options), batch_tokens_(options.batch_tokens), flush_ns_(options.flush_ns) {}
EncoderScheduler::~EncoderScheduler() = default;

void EncoderScheduler::Reindex(RequestId id, Request& r) {
  while (r.next_waiting < r.units.size() && r.units[r.next_waiting].state != UnitState::kWaiting) {
    ++r.next_waiting;
  }
  while (r.next_issue < r.units.size() && r.units[r.next_issue].state == UnitState::kIssued) {
    ++r.next_issue;
  }
  const OrderedRequest key{r.due_ns, r.order, id};
  if (r.next_waiting < r.units.size()) {
    waiting_.insert(key);
  } else {
    waiting_.erase(key);
  }
  const bool left = r.next_issue < r.units.size();
  const bool placed = left && r.units[r.next_issue].state == UnitState::kReady;
  if (placed || (left && !options_.prepare)) {
    encodable_.insert(key);
  } else {
    encodable_.erase(key);
  }
  if (placed) {
    placed_.insert(key);
  } else {
    placed_.erase(key);
  }
}

void EncoderScheduler::Add(RequestId id, uint64_t order, absl::Span<const int32_t> units,
                           absl::Span<const int64_t> tokens) {
  auto request = std::make_unique<Request>();
  request->order = order;
  request->units.resize(units.size());
  for (size_t i = 0; i < units.size(); ++i) {
    request->units[i].unit = units[i];
    request->units[i].tokens = tokens[i];
    request->by_number.push_back({units[i], i});
  }
  std::sort(request->by_number.begin(), request->by_number.end());
  Request& r = *request;
  requests_[id] = std::move(request);
  Reindex(id, r);
}

void EncoderScheduler::Remove(RequestId id) {
  auto it = requests_.find(id);
  if (it == requests_.end()) return;
  Unindex(id, *it->second);
  requests_.erase(it);
}

void EncoderScheduler::Unindex(RequestId id, const Request& r) {
  const OrderedRequest key{r.due_ns, r.order, id};
  waiting_.erase(key);
  encodable_.erase(key);
  placed_.erase(key);
}

void EncoderScheduler::SetDue(RequestId id, TimeNs due_ns) {
  auto it = requests_.find(id);
  if (it == requests_.end() || it->second->due_ns == due_ns) return;
  Unindex(id, *it->second);
  it->second->due_ns = due_ns;
  Reindex(id, *it->second);
}

bool EncoderScheduler::Contains(RequestId id) const { return requests_.contains(id); }

bool EncoderScheduler::NextToPrepare(RequestId preferred, PlaceFn place, UnitRef* unit) {
  if (waiting_.empty()) return false;
  auto try_request = [&](RequestId id) {
    auto it = requests_.find(id);
    if (it == requests_.end()) return false;
    Request& r = *it->second;
    if (r.next_waiting >= r.units.size()) return false;
    Request::Unit& next = r.units[r.next_waiting];
    if (!place({id, next.unit})) return false;
    next.state = UnitState::kPreparing;
    *unit = {id, next.unit};
    Reindex(id, r);
    return true;
  };
  const RequestId first = std::get<2>(*waiting_.begin());
  place_refused_ =
      !try_request(first) && (preferred == 0 || preferred == first || !try_request(preferred));
  return !place_refused_;
}

void EncoderScheduler::MarkPrepared(UnitRef unit, TimeNs now_ns) {
  Request& r = *requests_.find(unit.request)->second;
  Request::Unit& u = r.Find(unit.unit);
  u.state = UnitState::kReady;
  u.ready_ns = now_ns;
  Reindex(unit.request, r);
}

void EncoderScheduler::Requeue(UnitRef unit, TimeNs now_ns) {
  Request& r = *requests_.find(unit.request)->second;
  const size_t i = r.IndexOf(unit.unit);
  r.units[i].state = UnitState::kReady;
  r.units[i].ready_ns = now_ns;
  r.next_issue = std::min(r.next_issue, i);
  Reindex(unit.request, r);
}

void EncoderScheduler::Gather(Request& r, RequestId id, PlaceFn place, Gathered* g,
                              std::vector<UnitRef>* batch) {
  for (size_t i = r.next_issue; i < r.units.size(); ++i) {
    Request::Unit& u = r.units[i];
    if (u.state == UnitState::kIssued) continue;
    const bool without_place = !options_.prepare && u.state == UnitState::kWaiting;
    if (u.state != UnitState::kReady && !without_place) {
      g->stop = u.state == UnitState::kWaiting && place_refused_ ? Stop::kNoPlace : Stop::kComing;
      return;
    }
    if (!batch->empty() && u.tokens > options_.max_batch_tokens - g->tokens) {
      g->stop = Stop::kMax;
      return;
    }
    if (without_place && !place({id, u.unit})) {
      g->stop = Stop::kNoPlace;
      return;
    }
    u.state = UnitState::kReady;
    if (batch->empty()) g->since_ns = u.ready_ns;
    batch->push_back({id, u.unit});
    g->tokens += u.tokens;
    if (g->tokens >= batch_tokens_) {
      g->stop = Stop::kFull;
      return;
    }
  }
  g->stop = Stop::kEnd;
}

bool EncoderScheduler::NextBatch(TimeNs now_ns, RequestId preferred, PlaceFn place,
                                 std::vector<UnitRef>* batch) {
  batch->clear();
  next_flush_ns_ = kNever;
  Gathered g;
  RequestId first = 0;
  for (const auto& [due_ns, order, id] : encodable_) {
    if (first == 0) first = id;
    Gather(*requests_.find(id)->second, id, place, &g, batch);
    if (g.stop == Stop::kEnd && options_.across_requests) continue;
    if (g.stop != Stop::kComing) break;
    const TimeNs flush_ns = g.since_ns > kNever - flush_ns_ ? kNever : g.since_ns + flush_ns_;
    if (now_ns >= flush_ns) break;
    // It waits for its next unit; meanwhile a later request's batch may be complete.
    next_flush_ns_ = std::min(next_flush_ns_, flush_ns);
    batch->clear();
    g = Gathered();
  }
  // The first has no place. A requeued unit behind it holds the very place that it waits for, so
  // such units go ahead.
  if (batch->empty() && !options_.prepare && !placed_.empty()) {
    const RequestId id = std::get<2>(*placed_.begin());
    Gather(*requests_.find(id)->second, id, place, &g, batch);
  }
  if (batch->empty() && preferred != 0 && preferred != first && !options_.prepare) {
    auto it = requests_.find(preferred);
    if (it != requests_.end()) Gather(*it->second, preferred, place, &g, batch);
  }
  if (batch->empty()) return false;
  for (const UnitRef& unit : *batch) {
    Request& r = *requests_.find(unit.request)->second;
    r.Find(unit.unit).state = UnitState::kIssued;
  }
  for (const UnitRef& unit : *batch) {
    Reindex(unit.request, *requests_.find(unit.request)->second);
  }
  return true;
}

}  // namespace rserve
