// EncoderScheduler (paper, Algorithm 1): which units are encoded together, and when.
//
// Units of a request are taken in prompt order and gathered into batches of at least C tokens. The
// printed algorithm waits for nothing because its inputs are all at hand; here a unit may still be
// on its way (its pixels are being prepared), so the rule is: C never waits for what cannot come. A
// batch closes when
//   - it holds C tokens or more,
//   - its request has no unit left (with `across_requests`: no request has),
//   - the next unit would take it past `max_batch_tokens`,
//   - the next unit has no place (the caller's PlaceFn refused it), or
//   - its first unit has waited for `flush_ns`.
//
// A unit passes: waiting -> (placed) preparing -> prepared -> issued. With `prepare` off there is
// no preparation and a unit is placed as it joins a batch.
//
// Not thread-safe; no I/O. Requests are served by the time at which they are due and then in
// ascending `order` (the arrival number; while nobody calls SetDue, FCFS).
//
// Invariants
//   E1. A unit is issued at most once, unless Requeue put it back.
//   E2. Units of a request are placed in prompt order and issued in prompt order (a requeued unit
//       comes before all later ones).
//   E3. A batch holds at least one unit, and more than max_batch_tokens tokens never.
//   E4. A batch with less than C tokens is issued only for one of the reasons above.

#ifndef RSERVE_CC_ENCODER_SCHEDULER_H_
#define RSERVE_CC_ENCODER_SCHEDULER_H_

#include <cstdint>
#include <memory>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "rserve/cc/request_plan.h"

namespace rserve {

// C large enough to mean "all units of the request in one batch".
inline constexpr int64_t kEncodeAll = INT64_MAX;

struct EncoderSchedulerOptions {
  int64_t batch_tokens = 1024;           // C
  int64_t max_batch_tokens = INT64_MAX;  // no batch is larger; one unit never is (checked before)
  bool across_requests = false;          // a batch may go on with the next request's units
  bool prepare = false;                  // units pass a preparation before they can be encoded
  // Longest wait for a unit that is being prepared; 0: none, whatever is ready goes.
  TimeNs flush_ns = kNever;
};

class EncoderScheduler {
 public:
  // Whether there is room for the unit; a true answer reserves it.
  using PlaceFn = absl::FunctionRef<bool(UnitRef)>;

  explicit EncoderScheduler(const EncoderSchedulerOptions& options);
  ~EncoderScheduler();
  EncoderScheduler(const EncoderScheduler&) = delete;
  EncoderScheduler& operator=(const EncoderScheduler&) = delete;

  // Queues a request's units, given in prompt order with their token counts. `order` is unique.
  void Add(RequestId request, uint64_t order, absl::Span<const int32_t> units,
           absl::Span<const int64_t> tokens);
  // When the request is due; 0 at first. Nothing for a request that is not here.
  void SetDue(RequestId request, TimeNs due_ns);
  // C from now on, at least 1.
  void set_batch_tokens(int64_t tokens) { batch_tokens_ = tokens; }
  // flush_ns from now on, at least 0.
  void set_flush_ns(TimeNs flush_ns) { flush_ns_ = flush_ns; }
  // The first request in order with a unit that NextBatch may take, or 0.
  RequestId Front() const { return encodable_.empty() ? 0 : std::get<2>(*encodable_.begin()); }
  // Forgets a request and what is left of it.
  void Remove(RequestId request);
  bool Contains(RequestId request) const;

  // The next unit to prepare, in order, or false. Asks `place` for the first waiting unit of the
  // first request; if it has no place, for the one of `preferred` (0: none). A true answer moves
  // the unit to "preparing".
  bool NextToPrepare(RequestId preferred, PlaceFn place, UnitRef* unit);
  void MarkPrepared(UnitRef unit, TimeNs now_ns);

  // The next batch, in prompt order, or false (`batch` is then empty). `preferred` as above. With
  // preparation only prepared units are taken and `place` is not called.
  bool NextBatch(TimeNs now_ns, RequestId preferred, PlaceFn place, std::vector<UnitRef>* batch);

  // An issued unit must be encoded again (its encode failed); its place is still held.
  void Requeue(UnitRef unit, TimeNs now_ns);

  // When NextBatch must be called again for a flush, or kNever.
  TimeNs next_flush_ns() const { return next_flush_ns_; }

 private:
  struct Request;
  struct Gathered;
  using OrderedRequest = std::tuple<TimeNs, uint64_t, RequestId>;  // due, `order`, id

  // Appends what can be taken of the request to the batch and says why it stopped.
  void Gather(Request& request, RequestId id, PlaceFn place, Gathered* gathered,
              std::vector<UnitRef>* batch);
  void Reindex(RequestId id, Request& request);
  void Unindex(RequestId id, const Request& request);

  const EncoderSchedulerOptions options_;
  int64_t batch_tokens_ = 0;
  TimeNs flush_ns_ = kNever;
  absl::flat_hash_map<RequestId, std::unique_ptr<Request>> requests_;
  std::set<OrderedRequest> waiting_;    // with a unit that is not placed
  std::set<OrderedRequest> encodable_;  // with a unit that NextBatch may take first
  std::set<OrderedRequest> placed_;     // whose next unit has its place: prepared, or requeued
  bool place_refused_ = false;          // the last unit asked for could not be placed
  TimeNs next_flush_ns_ = kNever;
};

}  // namespace rserve

#endif  // RSERVE_CC_ENCODER_SCHEDULER_H_
