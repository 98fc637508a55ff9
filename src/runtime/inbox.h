// Inbox: what other threads hand to the driver, and the requests that the engine has accepted.
//
// Both live behind one mutex on purpose: a submit is checked against the limits, entered into the
// table and queued in one step, so that acceptance is final, a Cancel can never overtake its
// Submit, and nothing is queued behind a Drain or Abort that would have to be refused there.
//
// Nothing here waits for the driver, and what is accepted moves under the mutex in nodes that were
// allocated before. The driver takes the mutex twice a round, to Take and to Settle, not once an
// event: submitting threads are woken by each time they meet it.
//
// Invariants
//   I1. A request is in the table from its accepted Submit until it is settled as forgotten.
//   I2. open_requests_ and input_bytes_ are the sums over the requests in the table that are open;
//       they never exceed the limits.
//   I3. A request's record has a slot for each event that can still come for it.

#ifndef RSERVE_SRC_RUNTIME_INBOX_H_
#define RSERVE_SRC_RUNTIME_INBOX_H_

#include <condition_variable>
#include <cstdint>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "rserve/cc/engine.h"
#include "rserve/cc/orchestrator.h"

namespace rserve::runtime {

// A request between its Submit and the round of the driver that forgets it. The driver's alone once
// accepted, except where noted.
struct RequestRecord {
  RequestId id = 0;
  uint64_t user_data = 0;
  int64_t input_bytes = 0;
  TimeNs submitted_ns = 0;
  std::vector<int64_t> item_tokens;
  std::list<Event> slots;     // the events to come; the last one is the terminal event's
  absl::Status failure;       // set: ends with kFailed, whatever the orchestrator makes of it
  bool ended = false;         // its terminal event is made
  bool forgotten = false;     // the orchestrator knows it no more
  bool touched = false;       // ended or forgotten in this round of the driver
  bool open = true;           // until the end of the round that ended it; guarded by the inbox
  bool cancel_asked = false;  // guarded by the inbox
  RequestRecord* next_touched = nullptr;
};

// One thing for the driver. Travels as a list node, so that queueing needs no memory.
struct InboxItem {
  Input input;
  RequestRecord* submitted = nullptr;  // of a SubmitInput: valid until it is settled as forgotten
  bool finishes_action = false;        // the end of an action that the driver issued
  std::optional<TraceSpan> span;       // of that action, if somebody traces
};

class Inbox {
 public:
  // Limits as Budgets::queue_requests and Budgets::input_bytes.
  Inbox(int64_t max_requests, int64_t max_input_bytes);

  // ---- Any thread

  // The part of Engine::Submit behind CheckFits.
  absl::Status Submit(RequestPlan plan, uint64_t user_data, TimeNs now_ns);
  absl::Status Cancel(RequestId request);
  // Refuses submits from now on with FAILED_PRECONDITION, "the engine <why>", and queues `last`
  // (DrainInput, AbortInput).
  void Close(Input last, const char* why);
  // Close with an abort, after which the driver ends.
  void Stop();
  // Queues the one item of the list.
  void Post(std::list<InboxItem> item) noexcept;
  // Every accepted request is forgotten and the driver has done all that follows from it.
  bool idle() const;

  // ---- The driver

  // Appends what is queued; waits for it until `wake_ns`. The driver counts as busy until the next
  // call.
  void Take(TimeNs wake_ns, std::list<InboxItem>* items);
  // Stop was called, nothing is queued and every accepted request is forgotten.
  bool stopped() const;
  // For each record of the list (next_touched): gives back what it holds of the limits if it has
  // ended, and drops it if it is forgotten. Before the terminal events become visible.
  void Settle(RequestRecord* touched);
  // Refuses submits from now on, as Close does, but queues nothing and needs no memory.
  void Refuse(const char* why);
  // Calls `end` for every open request in ascending order of ids, and forgets all requests. `end`
  // must not call the inbox. Nothing is left to Settle then.
  void EndAll(absl::FunctionRef<void(RequestRecord&)> end);

 private:
  absl::Status CheckAdmission(RequestId request, int64_t input_bytes) const;
  void Queue(std::list<InboxItem> item, std::unique_lock<std::mutex> lock);
  void Release(RequestRecord& record);

  const int64_t max_requests_;
  const int64_t max_input_bytes_;

  mutable std::mutex mu_;
  std::condition_variable queued_;
  // All below: guarded by mu_.
  std::list<InboxItem> queue_;
  std::map<RequestId, RequestRecord> requests_;
  int64_t open_requests_ = 0;
  int64_t input_bytes_ = 0;
  const char* closed_ = nullptr;  // why submits are refused
  bool stopping_ = false;
  bool driver_busy_ = false;
};

}  // namespace rserve::runtime

#endif  // RSERVE_SRC_RUNTIME_INBOX_H_
