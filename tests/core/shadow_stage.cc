// Micro-batches: what may enter the first stage, in which order, and what later stages must be
// given.

#include <algorithm>

#include "tests/core/shadow_model.h"

namespace rserve::test {

void ShadowModel::OnStage(const StageAction& action) {
  if (!NewToken(action.token) || !CheckSlot(action.worker)) return;
  if (action.stage < 0 || action.stage >= num_stages_ ||
      config_.workers[action.worker].stage != action.stage) {
    return Fail("2", "worker ", action.worker, " does not host stage ", action.stage);
  }
  if (action.last_stage != (action.stage == num_stages_ - 1)) {
    return Fail("2", "stage ", action.stage, " of ", num_stages_,
                " says last_stage=", action.last_stage);
  }
  int64_t tokens = 0;
  for (const StageEntryAction& entry : action.entries) tokens += entry.chunk.tokens;
  if (tokens != action.tokens) Fail("2", "mb of ", tokens, " tokens says ", action.tokens);
  if (action.entries.empty()) Fail("2", "a micro-batch is empty");
  if (!violation_.empty()) return;

  ShadowMicroBatch* batch = nullptr;
  if (action.stage == 0) {
    CheckFirstStage(action);
    if (!violation_.empty()) return;
    batch = &batches_.emplace_back();
    batch->number = action.micro_batch;
    for (const StageEntryAction& entry : action.entries) {
      batch->entries.push_back({.request = Find(entry.chunk.request), .chunk = entry.chunk});
    }
  } else {
    const auto it = std::find_if(batches_.begin(), batches_.end(), [&](const auto& other) {
      return other.number == action.micro_batch;
    });
    if (it == batches_.end()) {
      return Fail("1", "mb", action.micro_batch, " is not on its way to stage ", action.stage);
    }
    batch = &*it;
    CheckLaterStage(action, batch);
    if (!violation_.empty()) return;
  }
  batch->stage = action.stage;
  batch->out = true;
  for (size_t i = 0; i < action.entries.size(); ++i) {
    batch->entries[i].reads = !action.entries[i].embeddings.empty();
    batch->entries[i].request->tokens_out += 1;
  }
  out_.push_back({.kind = TokenKind::kStage,
                  .token = action.token,
                  .worker = action.worker,
                  .units = {},
                  .micro_batch = action.micro_batch});
}

const ShadowRequest* ShadowModel::Exclusive(bool certain) const {
  for (const auto& request : requests_) {
    if ((certain ? MustKeep(*request) : Running(*request)) && request->entered &&
        request->prefilled < request->shape.plan().prompt_tokens) {
      return request.get();
    }
  }
  return nullptr;
}

bool ShadowModel::MayTake(const ShadowRequest& request) const {
  if (!MustKeep(request) || request.reuse_open) return false;
  if (config_.policy.gate == Gate::kWholeRequest &&
      request.units_encoded < request.shape.num_units()) {
    return false;
  }
  if (config_.policy.one_chunk_in_flight && request.chunks_in_flight > 0) return false;
  if (config_.policy.sharing == Sharing::kOneRequest) {
    for (const auto& other : requests_) {
      if (!MustKeep(*other) && other->chunks_in_flight > 0)
        return false;  // left open by the contract
    }
    const ShadowRequest* exclusive = Exclusive(/*certain=*/false);
    if (exclusive != nullptr && exclusive != &request) return false;
  }
  return request.shape.LargestChunk(request.scheduled, config_.policy.token_budget,
                                    request.frontier) > 0;
}

bool ShadowModel::OneWorkerForAll() const {
  const Policy& policy = config_.policy;
  return config_.workers.size() == 1 && config_.workers[0].encoder &&
         policy.adaptive_encode_batch && policy.gate == Gate::kStreaming &&
         policy.trigger == EncodeTrigger::kOnArrival;
}

// Whether reused blocks may end before an atomic span of more than `left` tokens.
bool ShadowModel::MayBeginBeforeSpan(const ShadowRequest& request, int64_t left) const {
  const auto blocks = static_cast<int64_t>(request.shape.plan().kv_block_keys.size());
  const int64_t block_tokens = config_.budgets.kv_block_tokens;
  for (int64_t begin = block_tokens; begin < request.frontier && begin <= blocks * block_tokens;
       begin += block_tokens) {
    if (request.shape.LargestChunk(begin, left, request.frontier) == 0) return true;
  }
  return false;
}

// An order other than by arrival: entries give all they can, and nobody is passed by a request that
// came later than the guard allows.
void ShadowModel::CheckOrderByDue(const StageAction& action) {
  const Policy& policy = config_.policy;
  const TimeNs guard_ns =
      policy.order == Order::kFeasibleFirst ? policy.hopeless_guard_ns : policy.order_guard_ns;
  int64_t left = policy.square_root_budget ? action.tokens : policy.token_budget;
  for (const StageEntryAction& entry : action.entries) {
    const ShadowRequest& request = *Find(entry.chunk.request);
    const bool last = &entry == &action.entries.back();
    const int64_t can = MayTake(request)
                            ? request.shape.LargestChunk(entry.chunk.begin, left, request.frontier)
                            : 0;
    if (entry.chunk.tokens < can) {
      return Fail(last ? "2" : "5", "r", request.id(), " gives ", entry.chunk.tokens,
                  " tokens and could give ", can);
    }
    left -= entry.chunk.tokens;
  }
  for (const auto& older : requests_) {
    const auto in = [&](const StageEntryAction& e) { return e.chunk.request == older->id(); };
    if (!MayTake(*older) || std::any_of(action.entries.begin(), action.entries.end(), in)) continue;
    for (const StageEntryAction& entry : action.entries) {
      const ShadowRequest& request = *Find(entry.chunk.request);
      if (request.arrival < older->arrival) continue;
      if (!older->entered && request.entered) continue;  // it may lack room to enter
      Hit(Reached::kOlderRequestPassed);
      if (request.times.submitted_ns - older->times.submitted_ns >= guard_ns) {
        return Fail("5", "r", request.id(), " passes r", older->id(), ", which came ",
                    request.times.submitted_ns - older->times.submitted_ns,
                    " ns before it; the guard is ", guard_ns);
      }
    }
  }
}

// Walks the requests in order beside the micro-batch: who was passed, who gave too little.
void ShadowModel::CheckOrder(const StageAction& action) {
  if (config_.policy.order != Order::kArrival) return CheckOrderByDue(action);
  // Where B follows the load, all that can be seen is that it was at least what was taken.
  int64_t left = config_.policy.square_root_budget ? action.tokens : config_.policy.token_budget;
  size_t next = 0;
  bool may_be_closed = false;
  const ShadowRequest* closed_for = nullptr;    // took no part although its tokens are there
  const ShadowRequest* no_entry_for = nullptr;  // could not enter
  for (const auto& request : requests_) {
    const bool in =
        next < action.entries.size() && action.entries[next].chunk.request == request->id();
    const bool entered = request->entered;
    const int64_t from = in ? action.entries[next].chunk.begin : request->scheduled;
    const int64_t can =
        MayTake(*request) ? request->shape.LargestChunk(from, left, request->frontier) : 0;
    if (in) {
      const int64_t tokens = action.entries[next].chunk.tokens;
      if (closed_for != nullptr) {
        return Fail("5", "r", request->id(), " overtakes r", closed_for->id(),
                    ", which has schedulable tokens");
      }
      if (!entered && no_entry_for != nullptr) {
        return Fail("5", "r", request->id(), " enters before r", no_entry_for->id());
      }
      if (tokens < can) {
        return Fail(next + 1 < action.entries.size() ? "5" : "2", "r", request->id(), " gives ",
                    tokens, " tokens and could give ", can);
      }
      left -= tokens;
      if (left == 0 && from + tokens < request->frontier) {
        Hit(Reached::kBudgetBCutAChunk);
      }
      next += 1;
    } else if (MayTake(*request)) {
      // One worker for everything keeps room free rather than begin what the first waits for.
      may_be_closed |=
          OneWorkerForAll() && next > 0 && request->units_encoded < request->shape.num_units();
      if (!entered) {
        // Whether it could enter is its room's matter; those behind it must not enter either.
        if (no_entry_for == nullptr) no_entry_for = request.get();
        // If it could, its atomic span does not fit what is left and closes the batch; behind
        // blocks that it reuses one may be next of which nothing is seen before it enters.
        may_be_closed |= can == 0 || MayBeginBeforeSpan(*request, left);
      } else if (left > 0 && closed_for == nullptr) {
        closed_for = request.get();
        if (can > 0 && next == action.entries.size() && !may_be_closed) {
          return Fail("2", "r", request->id(), " could give ", can, " tokens to mb",
                      action.micro_batch, ", which has room for ", left);
        }
      }
    } else if (request->open() && request->reuse_open) {
      may_be_closed = true;  // it may have tokens, and no room for them
    } else if (request->open() && next < action.entries.size() &&
               request->scheduled < request->shape.plan().prompt_tokens) {
      Hit(Reached::kPassedRequestWithoutTokens);
    }
  }
  if (next < action.entries.size()) {
    Fail("5", "entries of mb", action.micro_batch, " are not in order of arrival");
  }
}

void ShadowModel::CheckFirstStage(const StageAction& action) {
  if (action.micro_batch <= last_micro_batch_) {
    return Fail("1", "mb", action.micro_batch, " is issued after mb", last_micro_batch_);
  }
  last_micro_batch_ = action.micro_batch;
  if (static_cast<int32_t>(batches_.size()) >= max_micro_batches_) {
    return Fail("2", batches_.size() + 1, " micro-batches in flight, limit ", max_micro_batches_);
  }
  if (action.tokens > config_.policy.token_budget) {
    return Fail("2", "mb", action.micro_batch, " holds ", action.tokens, " tokens, B is ",
                config_.policy.token_budget);
  }
  const ShadowRequest* exclusive = Exclusive(/*certain=*/true);
  for (size_t i = 0; i < action.entries.size(); ++i) {
    const StageEntryAction& entry = action.entries[i];
    ShadowRequest* request = Find(entry.chunk.request);
    if (request == nullptr || !Running(*request)) {
      return Fail("1", "r", entry.chunk.request, " enters a micro-batch, but has ended");
    }
    for (size_t j = 0; j < i; ++j) {
      if (action.entries[j].chunk.request == entry.chunk.request) {
        return Fail("1", "r", entry.chunk.request, " is in a micro-batch twice");
      }
    }
    if (config_.policy.sharing == Sharing::kOneRequest &&
        (action.entries.size() > 1 || (exclusive != nullptr && exclusive != request))) {
      return Fail("2", "r", entry.chunk.request, " shares the pipeline, sharing is off");
    }
    if (entry.ended) return Fail("1", "a new entry of r", entry.chunk.request, " says ended");
    if (entry.chunk.tokens < 1) {
      return Fail("2", "r", entry.chunk.request, " has an empty entry");
    }
    // Only before it enters can more of its prompt have been written by others (CheckEnter).
    if (entry.chunk.begin < request->scheduled ||
        (request->entered && entry.chunk.begin > request->scheduled)) {
      return Fail("1", "r", request->id(), " gives tokens from ", entry.chunk.begin,
                  ", its next is ", request->scheduled);
    }
    const int64_t end = entry.chunk.begin + entry.chunk.tokens;
    const int64_t ready = request->entered
                              ? request->frontier
                              : request->shape.FrontierOf(request->encoded, entry.chunk.begin);
    if (end > ready) {
      return Fail("1", "r", request->id(), " gives tokens up to ", end, ", ready are ", ready);
    }
    if (request->shape.CutsAtomic(end)) {
      return Fail("2", "r", request->id(), " cuts an atomic span at ", end);
    }
    if (config_.policy.gate == Gate::kWholeRequest &&
        request->units_encoded < request->shape.num_units()) {
      return Fail("1", "r", request->id(), " is prefilled before all of it is encoded");
    }
    if (config_.policy.one_chunk_in_flight && request->chunks_in_flight > 0) {
      return Fail("2", "r", request->id(), " has a chunk in flight, one is the limit");
    }
  }
  CheckOrder(action);
  for (const StageEntryAction& entry : action.entries) {
    if (!violation_.empty()) return;
    ShadowRequest* request = Find(entry.chunk.request);
    if (!request->entered) {
      request->times.first_prefill_ns = now_ns_;
      CheckEnter(entry, request);
    }
    CheckEntry(action, entry, request);
    request->scheduled += entry.chunk.tokens;
    request->chunks_in_flight += 1;
    if (request->chunks_in_flight > 1) Hit(Reached::kManyChunksInFlight);
    for (const SpanPlan& span : request->shape.plan().spans) {
      if (span.atomic && entry.chunk.begin <= span.token_begin &&
          span.token_begin < request->scheduled) {
        Hit(Reached::kAtomicSpanTaken);
      }
    }
  }
  if (action.entries.size() > 1) Hit(Reached::kManyRequestsInMicroBatch);
  micro_batches_ += 1;
}

void ShadowModel::CheckEntry(const StageAction& action, const StageEntryAction& entry,
                             ShadowRequest* request) {
  const RequestPlan& plan = request->shape.plan();
  const int64_t end = entry.chunk.begin + entry.chunk.tokens;
  if (entry.last_chunk != (end == plan.prompt_tokens)) {
    return Fail("1", "r", request->id(), " chunk up to ", end, " of ", plan.prompt_tokens,
                " says last_chunk=", entry.last_chunk);
  }
  if (entry.ended == Running(*request) && (MustKeep(*request) || !entry.ended)) {
    return Fail("6", "r", request->id(), " on stage ", action.stage, " says ended=", entry.ended);
  }
  // The blocks of an ended request may be gone; blocks that are named must be its own.
  if (!(entry.ended && entry.kv_blocks.empty()) &&
      !std::equal(entry.kv_blocks.begin(), entry.kv_blocks.end(), request->kv_table.begin(),
                  request->kv_table.end())) {
    return Fail("6", "the block table of r", request->id(), " has changed");
  }
  for (const int32_t block : entry.kv_blocks) {
    if (!Owns(*request, block)) {
      return Fail("6", "KV block ", block, " of r", request->id(), " belongs to another request");
    }
  }
  const bool reads = action.stage <= plan.last_reader_stage;
  if (!reads && !entry.embeddings.empty()) {
    return Fail("1", "r", request->id(), " reads embeddings on stage ", action.stage,
                ", its last reader is stage ", plan.last_reader_stage);
  }
  if (!reads || (entry.ended && entry.embeddings.empty())) return;
  if (!request->shape.SlicesMatch(entry.chunk.begin, entry.chunk.tokens, entry.embeddings)) {
    return Fail("1", "r", request->id(), " chunk ", entry.chunk.begin, "+", entry.chunk.tokens,
                " is given wrong rows on stage ", action.stage);
  }
  int64_t before = -1;
  for (const EmbeddingSlice& slice : entry.embeddings) {
    const ShadowUnit& unit = request->units[slice.unit];
    if (!request->encoded[slice.unit] || !unit.embedding_held) {
      return Fail("6", "r", request->id(), " reads unit ", slice.unit, " on stage ", action.stage,
                  ", whose embedding is not there");
    }
    if (slice.unit < before || request->shape.end_read(slice.unit) > end) {
      Hit(Reached::kRepeatedRowsTaken);
    }
    before = slice.unit;
  }
}

void ShadowModel::CheckLaterStage(const StageAction& action, ShadowMicroBatch* batch) {
  if (batch->out) return Fail("1", "mb", batch->number, " is on two stages at once");
  if (batch->failed || batch->stage != action.stage - 1) {
    return Fail("1", "mb", batch->number, " comes to stage ", action.stage, " from stage ",
                batch->stage, batch->failed ? ", where it failed" : "");
  }
  for (const ShadowMicroBatch& other : batches_) {
    if (other.number < batch->number && other.stage < action.stage && !other.failed) {
      return Fail("1", "mb", batch->number, " comes to stage ", action.stage, " before mb",
                  other.number);
    }
  }
  if (action.entries.size() != batch->entries.size()) {
    return Fail("1", "mb", batch->number, " has changed its entries");
  }
  bool any_open = false;
  for (size_t i = 0; i < action.entries.size(); ++i) {
    const ShadowMicroBatch::Entry& own = batch->entries[i];
    if (own.request == nullptr) {
      return Fail("6", "mb", batch->number, " names r", own.chunk.request, ", which is forgotten");
    }
    if (!(action.entries[i].chunk == own.chunk)) {
      return Fail("1", "mb", batch->number, " has changed its entries");
    }
    CheckEntry(action, action.entries[i], own.request);
    if (!violation_.empty()) return;
    any_open |= !action.entries[i].ended;
    if (action.entries[i].ended) Hit(Reached::kEndedEntryOnLaterStage);
  }
  if (!any_open) Fail("6", "mb", batch->number, " goes on though all its requests have ended");
}

}  // namespace rserve::test
