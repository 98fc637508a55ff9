#include "rserve/cc/embedding_tracker.h"

#include <algorithm>
#include <cassert>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "src/core/unit_layout.h"

namespace rserve {

struct EmbeddingTracker::Request {
  struct Unit {
    int64_t bytes = 0;
    bool reserved = false;
    bool ready = false;
    bool released = false;
  };

  int64_t prompt_tokens = 0;
  std::vector<Unit> units;
  UnitLayout layout;
  std::vector<int32_t> by_last_token;  // units in the order in which commits release them
  size_t next_release = 0;             // into by_last_token
  size_t next_segment = 0;             // the first segment that is not passed
  int64_t skipped = 0;                 // no token before it needs a unit
  int64_t frontier = 0;
  int64_t scheduled = 0;
  int64_t committed = 0;
};

EmbeddingTracker::EmbeddingTracker() = default;
EmbeddingTracker::~EmbeddingTracker() = default;

const EmbeddingTracker::Request& EmbeddingTracker::Get(RequestId request) const {
  const auto it = requests_.find(request);
  assert(it != requests_.end() && "the request was not added");
  return *it->second;
}
EmbeddingTracker::Request& EmbeddingTracker::Get(RequestId request) {
  const auto it = requests_.find(request);
  assert(it != requests_.end() && "the request was not added");
  return *it->second;
}

absl::Status EmbeddingTracker::Add(const RequestPlan& plan) {
  if (absl::Status s = ValidatePlan(plan); !s.ok()) return s;
  if (requests_.contains(plan.id)) {
    return absl::AlreadyExistsError(absl::StrCat("request ", plan.id, " is already tracked"));
  }
  auto request = std::make_unique<Request>();
  request->prompt_tokens = plan.prompt_tokens;
  request->layout = BuildUnitLayout(plan);
  request->units.resize(plan.units.size());
  for (size_t u = 0; u < plan.units.size(); ++u) {
    request->units[u].bytes = plan.units[u].embedding_bytes;
  }
  request->by_last_token = request->layout.prompt_order;
  std::stable_sort(request->by_last_token.begin(), request->by_last_token.end(),
                   [&layout = request->layout](int32_t a, int32_t b) {
                     return layout.last_token[a] < layout.last_token[b];
                   });
  AdvanceFrontier(*request);
  requests_.emplace(plan.id, std::move(request));
  return absl::OkStatus();
}

void EmbeddingTracker::AdvanceFrontier(Request& r) {
  const std::vector<Segment>& segments = r.layout.segments;
  while (r.next_segment < segments.size()) {
    // All segments of an atomic span are passed together; any other is a group of its own.
    size_t end = r.next_segment;
    bool ready = true;
    while (end < segments.size() &&
           segments[end].group_begin == segments[r.next_segment].group_begin) {
      ready = ready && r.units[segments[end].unit].ready;
      ++end;
    }
    if (!ready) break;
    r.next_segment = end;
  }
  r.frontier =
      r.next_segment < segments.size() ? segments[r.next_segment].group_begin : r.prompt_tokens;
  // What was skipped may end within the segment.
  r.frontier = std::max(r.frontier, r.skipped);
}

void EmbeddingTracker::Reserve(UnitRef unit) {
  Request::Unit& u = Get(unit.request).units[unit.unit];
  if (u.reserved) return;
  u.reserved = true;
  u.released = false;
  live_bytes_ += u.bytes;
  peak_bytes_ = std::max(peak_bytes_, live_bytes_);
}

void EmbeddingTracker::MarkReady(UnitRef unit) {
  Request& r = Get(unit.request);
  assert(r.units[unit.unit].reserved && !r.units[unit.unit].ready &&
         "Reserve, then MarkReady once");
  r.units[unit.unit].ready = true;
  AdvanceFrontier(r);
}

int64_t EmbeddingTracker::Schedulable(RequestId request) const {
  const Request& r = Get(request);
  return r.frontier - r.scheduled;
}

int64_t EmbeddingTracker::LargestChunk(RequestId request, int64_t limit) const {
  const Request& r = Get(request);
  const int64_t tokens = std::min(limit, r.frontier - r.scheduled);
  if (tokens <= 0) return 0;
  return r.layout.WholeUpTo(r.scheduled + tokens) - r.scheduled;
}

void EmbeddingTracker::Skip(RequestId request, int64_t tokens, std::vector<int32_t>* released) {
  Request& r = Get(request);
  assert(tokens >= 0 && r.scheduled == r.committed && "nothing may be in a micro-batch");
  r.scheduled += tokens;
  r.skipped = r.scheduled;
  const std::vector<Segment>& segments = r.layout.segments;
  while (r.next_segment < segments.size() && segments[r.next_segment].group_end <= r.skipped) {
    ++r.next_segment;
  }
  AdvanceFrontier(r);
  Commit(request, tokens, released);
}

void EmbeddingTracker::Schedule(RequestId request, int64_t tokens) {
  Request& r = Get(request);
  assert(tokens >= 0 && tokens <= r.frontier - r.scheduled && "more than LargestChunk allows");
  r.scheduled += tokens;
}

void EmbeddingTracker::Slices(RequestId request, int64_t begin, int64_t tokens,
                              std::vector<EmbeddingSlice>* out) const {
  const std::vector<Segment>& segments = Get(request).layout.segments;
  const int64_t end = begin + tokens;
  auto it = std::partition_point(segments.begin(), segments.end(), [begin](const Segment& s) {
    return s.token_begin + s.tokens <= begin;
  });
  for (; it != segments.end() && it->token_begin < end; ++it) {
    EmbeddingSlice slice;
    slice.unit = it->unit;
    slice.token_begin = std::max(begin, it->token_begin);
    slice.tokens = std::min(end, it->token_begin + it->tokens) - slice.token_begin;
    slice.row_begin = it->row_begin + slice.token_begin - it->token_begin;
    out->push_back(slice);
  }
}

void EmbeddingTracker::Commit(RequestId request, int64_t tokens, std::vector<int32_t>* released) {
  Request& r = Get(request);
  assert(tokens >= 0 && tokens <= r.scheduled - r.committed && "more than was scheduled");
  r.committed += tokens;
  while (r.next_release < r.by_last_token.size()) {
    const int32_t unit = r.by_last_token[r.next_release];
    if (r.layout.last_token[unit] > r.committed) break;
    ++r.next_release;
    if (!r.units[unit].reserved || r.units[unit].released) continue;
    Release({request, unit});
    released->push_back(unit);
  }
}

void EmbeddingTracker::Release(UnitRef unit) {
  Request::Unit& u = Get(unit.request).units[unit.unit];
  if (!u.reserved || u.released) return;
  u.released = true;
  live_bytes_ -= u.bytes;
}

void EmbeddingTracker::Remove(RequestId request) { requests_.erase(request); }

bool EmbeddingTracker::Contains(RequestId request) const { return requests_.contains(request); }
bool EmbeddingTracker::IsReady(UnitRef unit) const {
  return Get(unit.request).units[unit.unit].ready;
}
bool EmbeddingTracker::IsReserved(UnitRef unit) const {
  const Request::Unit& u = Get(unit.request).units[unit.unit];
  return u.reserved && !u.released;
}
int64_t EmbeddingTracker::PromptTokens(RequestId request) const {
  return Get(request).prompt_tokens;
}
int64_t EmbeddingTracker::Scheduled(RequestId request) const { return Get(request).scheduled; }
int64_t EmbeddingTracker::Committed(RequestId request) const { return Get(request).committed; }
int64_t EmbeddingTracker::Frontier(RequestId request) const { return Get(request).frontier; }

}  // namespace rserve
