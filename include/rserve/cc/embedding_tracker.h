// EmbeddingTracker (paper, section 3.1): which prompt tokens can be prefilled, and which embeddings
// can go.
//
// For each request it keeps a frontier: the first token that is neither text nor covered by an
// encoded unit. The tokens between the ones already put in a micro-batch and the frontier are the
// request's schedulable tokens. A unit's embedding lives from its reservation (before its encode)
// until the last token that reads it is in a *committed* micro-batch; progress that was only
// scheduled releases nothing.
//
// Cost: Schedulable is O(1); MarkReady and Commit are O(spans passed). Not thread-safe; no I/O. A
// call about a request or unit that was not added, or with more than the contract allows, is
// undefined; debug builds assert.
//
// Invariants
//   T1. 0 <= committed <= scheduled <= frontier <= prompt_tokens, each only ever growing.
//   T2. frontier is the first token that reads a unit that is not ready and was not skipped, or
//       prompt_tokens: a span over several units (a video) is passed unit by unit. An atomic span
//       is passed whole.
//   T3. live_bytes is the sum of embedding_bytes over reserved and not yet released units.
//   T4. A unit is released once: when its last reader committed, or with its request.

#ifndef RSERVE_CC_EMBEDDING_TRACKER_H_
#define RSERVE_CC_EMBEDDING_TRACKER_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "rserve/cc/request_plan.h"

namespace rserve {

// A piece of a unit's embedding inside a chunk: the prompt tokens [token_begin, token_begin +
// tokens) take the unit's rows from row_begin on.
struct EmbeddingSlice {
  int32_t unit = 0;
  int64_t token_begin = 0;
  int64_t tokens = 0;
  int64_t row_begin = 0;
};

class EmbeddingTracker {
 public:
  EmbeddingTracker();
  ~EmbeddingTracker();
  EmbeddingTracker(const EmbeddingTracker&) = delete;
  EmbeddingTracker& operator=(const EmbeddingTracker&) = delete;

  // Registers a request; all its text is ready at once. Fails as ValidatePlan does, or with
  // ALREADY_EXISTS.
  absl::Status Add(const RequestPlan& plan);

  // Takes note that the unit's buffer is set aside (its bytes count from now on). Idempotent.
  void Reserve(UnitRef unit);
  // The unit's embedding exists. Advances the frontier. The unit must be reserved and not ready.
  void MarkReady(UnitRef unit);

  // Ready tokens, contiguous from the first token not yet in a micro-batch.
  int64_t Schedulable(RequestId request) const;
  // The largest chunk of at most `limit` tokens that can be taken next: never more than
  // Schedulable, never cutting an atomic span.
  int64_t LargestChunk(RequestId request, int64_t limit) const;

  // The next `tokens` tokens need no micro-batch: keys and values that are there hold them. Nothing
  // may be scheduled and uncommitted, and no atomic span be cut. Appends the units that are thereby
  // released to `released`.
  void Skip(RequestId request, int64_t tokens, std::vector<int32_t>* released);

  // The next `tokens` tokens go into a micro-batch. `tokens` must be what LargestChunk allows.
  void Schedule(RequestId request, int64_t tokens);
  // The pieces of embeddings that the tokens [begin, begin + tokens) read, in token order.
  void Slices(RequestId request, int64_t begin, int64_t tokens,
              std::vector<EmbeddingSlice>* out) const;
  // The oldest scheduled and uncommitted `tokens` tokens are done on the last stage that reads
  // embeddings. Appends the units that are thereby released to `released`.
  void Commit(RequestId request, int64_t tokens, std::vector<int32_t>* released);

  // Gives back one reserved unit whose embedding will not be used (its encode failed, its request
  // ended). No-op when it is not reserved.
  void Release(UnitRef unit);
  // Forgets the request. All its units must be released.
  void Remove(RequestId request);

  bool Contains(RequestId request) const;
  bool IsReady(UnitRef unit) const;
  bool IsReserved(UnitRef unit) const;  // reserved and not released
  int64_t PromptTokens(RequestId request) const;
  int64_t Scheduled(RequestId request) const;
  int64_t Committed(RequestId request) const;
  int64_t Frontier(RequestId request) const;

  int64_t live_bytes() const { return live_bytes_; }
  int64_t peak_bytes() const { return peak_bytes_; }

 private:
  struct Request;
  const Request& Get(RequestId request) const;
  Request& Get(RequestId request);
  void AdvanceFrontier(Request& request);

  absl::flat_hash_map<RequestId, std::unique_ptr<Request>> requests_;
  int64_t live_bytes_ = 0;
  int64_t peak_bytes_ = 0;
};

}  // namespace rserve

#endif  // RSERVE_CC_EMBEDDING_TRACKER_H_
