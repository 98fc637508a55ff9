#include "src/backend/cuda/in_flight.h"

#include <chrono>
#include <utility>

#include "src/backend/plan/quiet_thread.h"

namespace rserve::cuda {

namespace {

// How long a lost device stays unnoticed, at most.
constexpr std::chrono::milliseconds kPoll(5);

}  // namespace

absl::Status InFlight::Init(Timeline* timeline, int32_t places) {
  timeline_ = timeline;
  for (int32_t i = 0; i < places; ++i) {
    places_.push_back(std::make_unique<Place>());
    places_.back()->owner = this;
    absl::StatusOr<EventRef> done = timeline->device()->CreateEvent();
    if (!done.ok()) return done.status();
    places_.back()->done = *done;
  }
  thread_ = backend::QuietThread([this] { Serve(); });
  return absl::OkStatus();
}

InFlight::~InFlight() {
  if (thread_.joinable()) {
    // Host functions point to the places: none runs after this, whatever state the device is in.
    timeline_->device()->Quiesce(timeline_->stream());
    {
      std::unique_lock<std::mutex> lock(mutex_);
      changed_.wait(lock, [this] { return ended_.empty(); });
      stop_ = true;
      changed_.notify_all();
    }
    thread_.join();
  }
  for (const auto& place : places_) {
    if (place->done.handle != nullptr) timeline_->device()->DestroyEvent(place->done);
  }
}

size_t InFlight::Claim() {
  Place& place = *places_[next_];
  bool watched = false;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!place.busy) return next_;
    watched = place.watched;
  }
  if (watched) timeline_->device()->Synchronize(place.done).IgnoreError();  // Serve sees it too
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [&] { return !place.busy; });
  return next_;
}

void InFlight::End(absl::Status queued, Finish finish) {
  Place& place = *places_[next_];
  next_ = (next_ + 1) % places_.size();
  Device* device = timeline_->device();
  uint64_t piece = 0;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    piece = ++place.pieces;
  }
  absl::Status watched = device->Record(place.done, timeline_->stream());
  if (watched.ok()) watched = device->Notify(timeline_->stream(), &InFlight::Tell, &place);
  std::lock_guard<std::mutex> lock(mutex_);
  if (!watched.ok()) place.told = piece;  // nobody will
  place.watched = watched.ok();
  place.queued = queued.ok() ? std::move(watched) : std::move(queued);
  place.finish = std::move(finish);
  place.busy = true;
  ended_.push_back(&place);
  changed_.notify_all();
}

void InFlight::EndAndWait(absl::Status queued, Finish finish) {
  // The place is not busy before and after: nobody else looks at it.
  const Place& place = *places_[next_];
  Device* device = timeline_->device();
  absl::Status over = device->Record(place.done, timeline_->stream());
  if (over.ok()) over = device->Synchronize(place.done);
  std::move(finish)(queued.ok() ? std::move(over) : std::move(queued));
}

void InFlight::Tell(void* place) {
  auto* told = static_cast<Place*>(place);
  std::lock_guard<std::mutex> lock(told->owner->mutex_);
  ++told->told;
  told->owner->changed_.notify_all();
}

absl::Status InFlight::Await(Place& place) {
  std::unique_lock<std::mutex> lock(mutex_);
  while (place.told < place.pieces) {
    if (changed_.wait_for(lock, kPoll) != std::cv_status::timeout) continue;
    lock.unlock();
    const absl::StatusOr<bool> reached = timeline_->device()->Reached(place.done);
    if (!reached.ok()) return reached.status();
    if (*reached) return absl::OkStatus();
    lock.lock();
  }
  return absl::OkStatus();
}

void InFlight::Serve() {
  timeline_->device()->Bind().IgnoreError();  // a lost device shows when it is asked
  for (;;) {
    Place* place = nullptr;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      changed_.wait(lock, [this] { return stop_ || !ended_.empty(); });
      if (ended_.empty()) return;
      place = ended_.front();
    }
    absl::Status over = Await(*place);
    std::move(place->finish)(place->queued.ok() ? std::move(over) : place->queued);
    std::lock_guard<std::mutex> lock(mutex_);
    place->finish = nullptr;
    place->busy = false;
    ended_.pop_front();
    changed_.notify_all();
  }
}

}  // namespace rserve::cuda
