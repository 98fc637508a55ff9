// InFlight: the pieces of work of one role that are queued on its stream and not done.
//
// A piece has a place (what the role keeps once for each piece: staging, pinned memory). The end of
// a piece is an event, and a host function behind it that wakes this object's thread. That thread
// finishes pieces in their order: it copies results out and calls whoever waits. A device that has
// failed skips host functions, so the thread also asks for the event now and then; from a lost
// device every piece gets the device's error, once.

#ifndef RSERVE_SRC_BACKEND_CUDA_IN_FLIGHT_H_
#define RSERVE_SRC_BACKEND_CUDA_IN_FLIGHT_H_

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "src/backend/cuda/device.h"

namespace rserve::cuda {

// Claim, End and Wait: one thread, the role's. A piece that is claimed is ended before the next one
// is claimed.
class InFlight {
 public:
  // What is done when a piece is over, with OK or with what the device says.
  using Finish = absl::AnyInvocable<void(absl::Status) &&>;

  InFlight() = default;
  // Waits for all pieces. The timeline is still there.
  ~InFlight();
  InFlight(const InFlight&) = delete;
  InFlight& operator=(const InFlight&) = delete;

  // `timeline` outlives the object. `places`: pieces at the same time, at least 1.
  absl::Status Init(Timeline* timeline, int32_t places);

  // The place of the next piece; waits until the last piece that had it is finished.
  size_t Claim() ABSL_LOCKS_EXCLUDED(mutex_);
  // All of the claimed piece is queued, or went wrong with `queued` on the way. `finish` runs on
  // this object's thread when the piece is over and those before it are finished.
  void End(absl::Status queued, Finish finish) ABSL_LOCKS_EXCLUDED(mutex_);
  // The same, but blocks, and runs `finish` here.
  void EndAndWait(absl::Status queued, Finish finish) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Place {
    InFlight* owner = nullptr;
    EventRef done;
    Finish finish;
    absl::Status queued;
    bool watched = false;  // its event is recorded and its host function queued
    bool busy = false;     // from End until it is finished
    // Pieces that had this place, and those of them that the host functions have told of. Host
    // functions run in their order, so one that comes late is not taken for the next piece's.
    uint64_t pieces = 0;
    uint64_t told = 0;
  };

  static void Tell(void* place);
  void Serve();
  // Blocks until the piece's end is known; what the device says of it.
  absl::Status Await(Place& place) ABSL_LOCKS_EXCLUDED(mutex_);

  Timeline* timeline_ = nullptr;
  std::vector<std::unique_ptr<Place>> places_;
  size_t next_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Place*> ended_ ABSL_GUARDED_BY(mutex_);  // oldest first, until finished
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace rserve::cuda

#endif  // RSERVE_SRC_BACKEND_CUDA_IN_FLIGHT_H_
