#include "src/core/place_ledger.h"

#include <algorithm>

namespace rserve {
namespace {

void Add(Amounts* to, const Amounts& a) {
  to->embedding_bytes += a.embedding_bytes;
  to->pixel_bytes += a.pixel_bytes;
  to->units += a.units;
}

void Subtract(Amounts* from, const Amounts& a) {
  from->embedding_bytes -= a.embedding_bytes;
  from->pixel_bytes -= a.pixel_bytes;
  from->units -= a.units;
}

}  // namespace

void PlaceLedger::AddFloor(Request& r) {
  r.floor = r.layout->floor[r.next];
  floor_embedding_.insert(r.floor.embedding_bytes);
  floor_pixels_.insert(r.floor.pixel_bytes);
  floor_units_.insert(r.floor.units);
}

void PlaceLedger::RemoveFloor(const Request& r) {
  floor_embedding_.erase(floor_embedding_.find(r.floor.embedding_bytes));
  floor_pixels_.erase(floor_pixels_.find(r.floor.pixel_bytes));
  floor_units_.erase(floor_units_.find(r.floor.units));
}

Amounts PlaceLedger::LargestFloor() const {
  if (floor_units_.empty()) return {};
  return {*floor_embedding_.rbegin(), *floor_pixels_.rbegin(), *floor_units_.rbegin()};
}

bool PlaceLedger::Fits(const Amounts& more, const Amounts& keep_free) const {
  // Sizes are checked at submit, so the sums stay far below overflow; limits may be INT64_MAX.
  return more.embedding_bytes + keep_free.embedding_bytes <=
             limits_.embedding_bytes - used_.embedding_bytes &&
         more.pixel_bytes + keep_free.pixel_bytes <= limits_.pixel_bytes - used_.pixel_bytes &&
         more.units + keep_free.units <= limits_.units - used_.units;
}

void PlaceLedger::Take(Request& r, const Amounts& a) {
  rserve::Add(&used_, a);
  rserve::Add(&r.held, a);
  if (!r.entered) rserve::Add(&held_waiting_, a);
  peak_.embedding_bytes = std::max(peak_.embedding_bytes, used_.embedding_bytes);
  peak_.pixel_bytes = std::max(peak_.pixel_bytes, used_.pixel_bytes);
  peak_.units = std::max(peak_.units, used_.units);
}

void PlaceLedger::Give(Request& r, const Amounts& a) {
  Subtract(&used_, a);
  Subtract(&r.held, a);
  if (!r.entered) Subtract(&held_waiting_, a);
}

void PlaceLedger::Add(RequestId id, const UnitLayout* layout) {
  auto request = std::make_unique<Request>();
  request->layout = layout;
  request->placing = !layout->floor.empty();
  if (request->placing) {
    AddFloor(*request);
    request->rank = waiting_.insert(waiting_.end(), id);
  }
  requests_[id] = std::move(request);
}

void PlaceLedger::Relayout(RequestId id) {
  Request& r = *requests_.find(id)->second;
  if (!r.placing) return;
  RemoveFloor(r);
  if (r.layout->floor.empty()) {
    Unrank(r);
  } else {
    AddFloor(r);
  }
}

void PlaceLedger::StopPlacing(RequestId id) {
  Request& r = *requests_.find(id)->second;
  if (!r.placing) return;
  RemoveFloor(r);
  Unrank(r);
}

void PlaceLedger::Unrank(Request& r) {
  (r.entered ? entered_ : waiting_).erase(r.rank);
  r.placing = false;
}

void PlaceLedger::Remove(RequestId id) {
  StopPlacing(id);
  requests_.erase(id);
}

bool PlaceLedger::TryPlaceNext(RequestId id, const Amounts& unit) {
  Request& r = *requests_.find(id)->second;
  RemoveFloor(r);
  // Rule (a): the first-ranked request needs to leave nothing. Rule (b): room for the others'
  // floors.
  const bool fits = Fits(unit, FirstRanked() == id ? Amounts() : LargestFloor());
  if (fits) {
    Take(r, unit);
    ++r.next;
  }
  if (r.next < r.layout->floor.size()) {
    AddFloor(r);
  } else {
    Unrank(r);
  }
  return fits;
}

bool PlaceLedger::TryPlaceAll(RequestId id) {
  Request& r = *requests_.find(id)->second;
  // Nobody enters before all of it is placed, so ranks are arrivals here.
  if (FirstRanked() != id) return false;
  const Amounts all = {r.layout->total.embedding_bytes, 0, r.layout->total.units};
  if (!Fits(all, Amounts())) return false;
  Take(r, all);
  StopPlacing(id);
  return true;
}

bool PlaceLedger::TryPlacePixels(RequestId id, int64_t pixel_bytes) {
  const Amounts pixels = {0, pixel_bytes, 0};
  if (!Fits(pixels, Amounts())) return false;
  Take(*requests_.find(id)->second, pixels);
  return true;
}

bool PlaceLedger::MayEnter(RequestId id) const {
  const Request& r = *requests_.find(id)->second;
  // A request with nothing left to place asks for nothing more: it cannot hold up anybody.
  if (!r.placing) return true;
  const Amounts& floor = r.layout->floor[r.next];
  auto fits = [](int64_t limit, int64_t others, int64_t own) { return own <= limit - others; };
  return fits(limits_.embedding_bytes, held_waiting_.embedding_bytes - r.held.embedding_bytes,
              floor.embedding_bytes) &&
         fits(limits_.pixel_bytes, held_waiting_.pixel_bytes - r.held.pixel_bytes,
              floor.pixel_bytes) &&
         fits(limits_.units, held_waiting_.units - r.held.units, floor.units);
}

void PlaceLedger::Enter(RequestId id) {
  Request& r = *requests_.find(id)->second;
  if (r.entered) return;
  Subtract(&held_waiting_, r.held);
  if (r.placing) entered_.splice(entered_.end(), waiting_, r.rank);
  r.entered = true;
}

void PlaceLedger::ReleaseEmbedding(RequestId id, int64_t embedding_bytes) {
  Give(*requests_.find(id)->second, {embedding_bytes, 0, 1});
}

void PlaceLedger::ReleasePixels(RequestId id, int64_t pixel_bytes) {
  Give(*requests_.find(id)->second, {0, pixel_bytes, 0});
}

}  // namespace rserve
