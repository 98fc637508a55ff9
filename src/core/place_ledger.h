// PlaceLedger: who may take how much of the unit budgets, so that no mix of budgets can deadlock.
//
// The rules (a), (b), (c) and the argument stand in rserve/cc/orchestrator.h; this is their one
// implementation. Three budgets are kept: embedding bytes, pixel bytes, units in flight.
//
// Not thread-safe. A request is ranked in O(1), since both orders only grow at their ends; floors
// cost O(log requests) and change only when a unit is placed or a request comes or goes.

#ifndef RSERVE_SRC_CORE_PLACE_LEDGER_H_
#define RSERVE_SRC_CORE_PLACE_LEDGER_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <set>

#include "absl/container/flat_hash_map.h"
#include "rserve/cc/request_plan.h"
#include "src/core/unit_layout.h"

namespace rserve {

class PlaceLedger {
 public:
  explicit PlaceLedger(const Amounts& limits) : limits_(limits) {}

  // Registers a request; those without units to place only hold up nobody. `layout` must outlive
  // the registration. Requests arrive in the order of the calls.
  void Add(RequestId request, const UnitLayout* layout);
  // The request's layout is another one, of fewer units; nothing of it is placed.
  void Relayout(RequestId request);
  // The request places nothing more (it ended or all is placed); what it holds stays until Release.
  void StopPlacing(RequestId request);
  // Forgets the request. It must hold nothing.
  void Remove(RequestId request);

  // Takes the amounts of the request's next unit in prompt order, if rules (a) or (b) allow it.
  bool TryPlaceNext(RequestId request, const Amounts& unit);
  // Takes the embeddings and units of the whole request (whole-request gate): allowed when they fit
  // and no older request still has to place. Its pixels are taken unit by unit.
  bool TryPlaceAll(RequestId request);
  bool TryPlacePixels(RequestId request, int64_t pixel_bytes);

  // Rule (c): whether the request may enter now; Enter moves it up in rank.
  bool MayEnter(RequestId request) const;
  void Enter(RequestId request);

  void ReleaseEmbedding(RequestId request, int64_t embedding_bytes);
  void ReleasePixels(RequestId request, int64_t pixel_bytes);

  // The first-ranked request with units to place, or 0.
  RequestId FirstRanked() const {
    const std::list<RequestId>& first = entered_.empty() ? waiting_ : entered_;
    return first.empty() ? 0 : first.front();
  }
  const Amounts& used() const { return used_; }
  const Amounts& peak() const { return peak_; }

 private:
  struct Request {
    const UnitLayout* layout = nullptr;
    std::list<RequestId>::iterator rank;  // its place in one of the two lists, while placing
    size_t next = 0;                      // position of the next unit to place
    Amounts floor;                        // its entry among the floors, while placing
    bool placing = false;
    bool entered = false;
    Amounts held;
  };

  void Unrank(Request& request);
  bool Fits(const Amounts& more, const Amounts& keep_free) const;
  void Take(Request& request, const Amounts& amounts);
  void Give(Request& request, const Amounts& amounts);
  void AddFloor(Request& request);
  void RemoveFloor(const Request& request);
  Amounts LargestFloor() const;

  const Amounts limits_;
  Amounts used_;
  Amounts peak_;
  Amounts held_waiting_;  // by requests that have not entered
  absl::flat_hash_map<RequestId, std::unique_ptr<Request>> requests_;
  // Requests with units to place: those that have entered by entry, then the others by arrival.
  std::list<RequestId> entered_, waiting_;
  std::multiset<int64_t> floor_embedding_, floor_pixels_, floor_units_;
};

}  // namespace rserve

#endif  // RSERVE_SRC_CORE_PLACE_LEDGER_H_
