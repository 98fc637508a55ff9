#include "rserve/cc/token_scheduler.h"

#include <algorithm>
#include <utility>

namespace rserve {
namespace {

enum class Where { kNowhere, kEntered, kWaiting };  // in which of the two indexes

}  // namespace

struct TokenScheduler::Request {
  RequestId id = 0;
  int64_t begin = 0;      // first prompt token in no micro-batch yet
  int64_t remaining = 0;  // prompt tokens in no micro-batch yet
  int64_t schedulable = 0;
  int32_t in_flight = 0;  // micro-batches not retired
  bool entered = false;
  Where where = Where::kNowhere;
  bool removed = false;  // gone, but for micro-batches that are still in flight
  // Its place in the index that `where` names; outside of both it keeps its node, so that coming
  // and going allocates nothing.
  OrderIndex::iterator place;
  OrderIndex::node_type parked;
};

TokenScheduler::TokenScheduler(const TokenSchedulerOptions& options)
    : options_(options), budget_tokens_(options.budget_tokens) {}
TokenScheduler::~TokenScheduler() = default;

bool TokenScheduler::MayBeTaken(const Request& r) const {
  return r.schedulable > 0 && !(options_.one_chunk_in_flight && r.in_flight > 0);
}

// Most updates leave a request where it is, so the indexes are touched on a change only.
void TokenScheduler::Reindex(Request& r) {
  Where where = Where::kNowhere;
  if (MayBeTaken(r)) where = r.entered ? Where::kEntered : Where::kWaiting;
  if (where == r.where) return;
  if (r.where == Where::kEntered) r.parked = entered_.extract(r.place);
  if (r.where == Where::kWaiting) r.parked = waiting_.extract(r.place);
  if (where == Where::kEntered) r.place = entered_.insert(std::move(r.parked)).position;
  if (where == Where::kWaiting) r.place = waiting_.insert(std::move(r.parked)).position;
  r.where = where;
}

void TokenScheduler::Add(RequestId id, uint64_t order, int64_t prompt_tokens) {
  auto request = std::make_unique<Request>();
  request->id = id;
  request->remaining = prompt_tokens;
  OrderIndex node;
  request->parked = node.extract(node.emplace(OrderKey{0, order}, request.get()).first);
  requests_[id] = std::move(request);
}

void TokenScheduler::SetDue(RequestId id, TimeNs due_ns) {
  by_due_ = true;
  Request& r = *requests_.find(id)->second;
  if (r.where == Where::kNowhere) {
    r.parked.key().first = due_ns;
    return;
  }
  if (r.place->first.first == due_ns) return;
  OrderIndex& index = r.where == Where::kEntered ? entered_ : waiting_;
  OrderIndex::node_type node = index.extract(r.place);
  node.key().first = due_ns;
  r.place = index.insert(std::move(node)).position;
}

void TokenScheduler::Remove(RequestId id) {
  auto it = requests_.find(id);
  if (it == requests_.end()) return;
  Request& r = *it->second;
  if (r.entered && !r.removed) --inside_;
  r.schedulable = 0;
  r.remaining = 0;
  Reindex(r);
  if (r.in_flight > 0) {
    r.removed = true;
    return;
  }
  if (exclusive_ == id) exclusive_ = 0;
  requests_.erase(it);
}

bool TokenScheduler::Contains(RequestId id) const {
  auto it = requests_.find(id);
  return it != requests_.end() && !it->second->removed;
}

void TokenScheduler::SetSchedulable(RequestId id, int64_t tokens) {
  Request& r = *requests_.find(id)->second;
  r.schedulable = std::min(tokens, r.remaining);
  Reindex(r);
}

void TokenScheduler::Skip(RequestId id, int64_t tokens) {
  Request& r = *requests_.find(id)->second;
  r.begin += tokens;
  r.remaining -= tokens;
  r.schedulable = std::max<int64_t>(r.schedulable - tokens, 0);  // its place stays right
}

bool TokenScheduler::Next(ChunkFn chunk, EnterFn enter, std::vector<BatchEntry>* batch) {
  batch->clear();
  taken_.clear();
  int64_t left = budget_tokens_;
  const bool one = options_.sharing == Sharing::kOneRequest;
  bool may_enter = exclusive_ == 0;
  auto next_entered = entered_.begin();
  auto next_waiting = waiting_.begin();
  while (left > 0) {
    const bool have_entered = next_entered != entered_.end();
    const bool have_waiting = may_enter && next_waiting != waiting_.end();
    if (!have_entered && !have_waiting) break;
    const bool take_entered =
        have_entered && (!have_waiting || next_entered->first < next_waiting->first);
    Request& r = *(take_entered ? next_entered++ : next_waiting++)->second;
    const RequestId id = r.id;

    int64_t tokens = chunk(id, std::min(left, r.schedulable));
    if (tokens == kCloseBatch && batch->empty() && left < options_.budget_tokens) {
      left = options_.budget_tokens;
      tokens = chunk(id, std::min(left, r.schedulable));
    }
    if (tokens == kPassRequest) continue;
    if (tokens == kNoBatch) {
      for (Request* taken : taken_) SetEntered(*taken);  // with or without tokens, they are in
      batch->clear();
      return false;
    }
    if (tokens == kCloseBatch) break;
    if (tokens == kNoEntry) {
      may_enter = false;
      continue;
    }
    if (!take_entered && !enter(id)) {
      may_enter = false;
      continue;
    }
    Take(r, tokens, batch);
    left -= tokens;
    if (one) break;
  }
  if (batch->empty() && !may_enter && exclusive_ == 0 && by_due_ && inside_ == 0) {
    TryOldest(chunk, enter, batch);
  }
  for (size_t i = 0; i < taken_.size(); ++i) {
    Request& r = *taken_[i];
    const int64_t tokens = (*batch)[i].tokens;
    r.begin += tokens;
    r.remaining -= tokens;
    r.schedulable -= tokens;
    r.in_flight += 1;
    SetEntered(r);
    Reindex(r);
    if (one) exclusive_ = r.id;
  }
  return !batch->empty();
}

void TokenScheduler::SetEntered(Request& r) {
  if (r.entered) return;
  r.entered = true;
  ++inside_;
  Reindex(r);
}

void TokenScheduler::Take(Request& r, int64_t tokens, std::vector<BatchEntry>* batch) {
  batch->push_back({r.id, r.begin, tokens});
  taken_.push_back(&r);
}

void TokenScheduler::TryOldest(ChunkFn chunk, EnterFn enter, std::vector<BatchEntry>* batch) {
  Request* oldest = nullptr;
  uint64_t order = UINT64_MAX;
  for (const auto& [key, request] : waiting_) {
    if (key.second >= order) continue;
    order = key.second;
    oldest = request;
  }
  const int64_t tokens = chunk(oldest->id, std::min(options_.budget_tokens, oldest->schedulable));
  if (tokens > 0 && enter(oldest->id)) Take(*oldest, tokens, batch);
}

void TokenScheduler::Retire(RequestId id) {
  auto it = requests_.find(id);
  if (it == requests_.end()) return;
  Request& r = *it->second;
  r.in_flight -= 1;
  if (exclusive_ == id && r.in_flight == 0 && r.remaining == 0) exclusive_ = 0;
  if (r.removed && r.in_flight == 0) {
    requests_.erase(it);
    return;
  }
  Reindex(r);
}

bool TokenScheduler::HasEntered(RequestId id) const { return requests_.find(id)->second->entered; }
int64_t TokenScheduler::Remaining(RequestId id) const {
  return requests_.find(id)->second->remaining;
}
int32_t TokenScheduler::InFlight(RequestId id) const {
  return requests_.find(id)->second->in_flight;
}

RequestId TokenScheduler::Front() const {
  const bool waiting = exclusive_ == 0 && !waiting_.empty();
  if (entered_.empty()) return waiting ? waiting_.begin()->second->id : 0;
  if (!waiting) return entered_.begin()->second->id;
  return std::min(*entered_.begin(), *waiting_.begin()).second->id;
}

}  // namespace rserve
