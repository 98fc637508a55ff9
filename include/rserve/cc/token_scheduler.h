// TokenScheduler (paper, Algorithm 2): fills micro-batches with schedulable tokens across requests.
//
// Requests are taken by the time at which they are due and then in ascending `order` (the arrival
// number; while nobody calls SetDue, FCFS), each giving as many of its schedulable tokens as the
// budget B still holds, until B is used up. Where the printed pseudo-code
// leaves a gap:
//   - a request is finished when what *remains* of its prompt is taken, not when its schedulable
//     tokens equal the prompt's length;
//   - a request with more schedulable tokens than the remaining budget gives a part and stays,
//     also when that was all it had left to become schedulable;
//   - a request without schedulable tokens is passed over, keeps its place and is in no batch.
// Requests without schedulable tokens are not looked at, so the cost of a micro-batch grows with
// its entries and not with the queue.
//
// A request *enters* with its first tokens. Entering can need room (KV blocks); the first request
// in order that finds none closes the batch to all that have not entered either, so it cannot
// starve. By due times that first one may be a younger request that waits for what the oldest
// holds; so, when no request is inside and the batch would be empty, the oldest that could give
// tokens is tried as well.
//
// Not thread-safe; no I/O.
//
// Invariants
//   S1. A micro-batch holds at most B tokens, at least one entry, and no entry without tokens. It
//       holds more than set_budget_tokens only if its first entry cannot be split to fit.
//   S2. Entries are in order; a request is passed only for want of schedulable tokens, or because
//   it
//       has not entered and a request before it could not.
//   S3. With Sharing::kOneRequest all tokens in flight belong to one request.

#ifndef RSERVE_CC_TOKEN_SCHEDULER_H_
#define RSERVE_CC_TOKEN_SCHEDULER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "rserve/cc/request_plan.h"

namespace rserve {

enum class Sharing : int32_t {
  kMany = 0,        // tokens of many requests in a micro-batch
  kOneRequest = 1,  // one request between its first micro-batch and its last commit
};

struct TokenSchedulerOptions {
  int64_t budget_tokens = 2048;  // B
  Sharing sharing = Sharing::kMany;
  // Vanilla pipeline parallelism (paper, Figure 5): a request's next chunk waits until the one
  // before has left the last stage. False: chunked pipeline parallelism.
  bool one_chunk_in_flight = false;
};

struct BatchEntry {
  RequestId request = 0;
  int64_t begin = 0;  // first prompt token of the chunk
  int64_t tokens = 0;
  friend bool operator==(const BatchEntry&, const BatchEntry&) = default;
};

class TokenScheduler {
 public:
  // How many tokens of at most `limit` (what the budget and the request's schedulable tokens allow,
  // at least 1) the request gives next, or one of the answers below.
  using ChunkFn = absl::FunctionRef<int64_t(RequestId, int64_t limit)>;
  // Whether the request may enter now; a true answer holds its room.
  using EnterFn = absl::FunctionRef<bool(RequestId)>;

  // Its next tokens cannot be split to fit: the batch closes before it.
  static constexpr int64_t kCloseBatch = 0;
  // It has none after all; it is passed over as if it had no schedulable tokens.
  static constexpr int64_t kPassRequest = -1;
  // Something must be done first: no batch is formed now and nothing is taken. Requests that `enter`
  // has let in before are in all the same.
  static constexpr int64_t kNoBatch = -2;
  // It has not entered and may not now: as if `enter` had refused it.
  static constexpr int64_t kNoEntry = -3;

  explicit TokenScheduler(const TokenSchedulerOptions& options);
  ~TokenScheduler();
  TokenScheduler(const TokenScheduler&) = delete;
  TokenScheduler& operator=(const TokenScheduler&) = delete;

  // `order` is unique.
  void Add(RequestId request, uint64_t order, int64_t prompt_tokens);
  // When the request is due; 0 at first.
  void SetDue(RequestId request, TimeNs due_ns);
  // B from now on, 1 to TokenSchedulerOptions::budget_tokens.
  void set_budget_tokens(int64_t tokens) { budget_tokens_ = tokens; }
  // Takes the request out. Micro-batches of it that are in flight must still be retired.
  void Remove(RequestId request);
  bool Contains(RequestId request) const;

  // Tells how many tokens of the request are schedulable now.
  void SetSchedulable(RequestId request, int64_t tokens);

  // The request's next `tokens` tokens need no micro-batch. It must not have entered, and keeps a
  // schedulable token if it had one; may be called by a ChunkFn about the request that it is for.
  void Skip(RequestId request, int64_t tokens);

  // Forms the next micro-batch into `batch`, or returns false. Takes the tokens it puts there.
  bool Next(ChunkFn chunk, EnterFn enter, std::vector<BatchEntry>* batch);
  // One micro-batch of the request has left the last stage.
  void Retire(RequestId request);

  bool HasEntered(RequestId request) const;
  int64_t Remaining(RequestId request) const;  // prompt tokens in no micro-batch yet
  int32_t InFlight(RequestId request) const;   // micro-batches not retired
  // The first request in order that has schedulable tokens and may be taken, or 0.
  RequestId Front() const;

 private:
  struct Request;
  using OrderKey = std::pair<TimeNs, uint64_t>;  // due, `order`
  using OrderIndex = std::map<OrderKey, Request*>;

  bool MayBeTaken(const Request& request) const;
  void Reindex(Request& request);
  void SetEntered(Request& request);
  void Take(Request& request, int64_t tokens, std::vector<BatchEntry>* batch);
  void TryOldest(ChunkFn chunk, EnterFn enter, std::vector<BatchEntry>* batch);

  const TokenSchedulerOptions options_;
  int64_t budget_tokens_ = 0;
  int64_t inside_ = 0;   // requests that have entered and are not removed
  bool by_due_ = false;  // SetDue was called
  absl::flat_hash_map<RequestId, std::unique_ptr<Request>> requests_;
  // Requests that can give tokens now, by whether they have entered.
  OrderIndex entered_;
  OrderIndex waiting_;
  RequestId exclusive_ = 0;      // Sharing::kOneRequest: the one in flight
  std::vector<Request*> taken_;  // scratch of Next, kept for its capacity
};

}  // namespace rserve

#endif  // RSERVE_CC_TOKEN_SCHEDULER_H_
