// HandOver: the hidden states between two stages, which stay on the devices.
//
// The rows of a micro-batch lie in a place of the receiver's device memory, in bf16 as both stages
// compute with them. The last that the sender queues for its rows is their way there; the first
// that the receiver queues is a copy from there. Two stages of several ranks have one HandOver for
// each rank, since every rank holds all rows.
//
// No stream waits for another device: a stage begins with a micro-batch when the stage before has
// reported it done, that is, when its stream is through; and a place is used again when the
// receiver has reported its work on the micro-batch done, or will never get it (Forget). So a
// device that is lost leaves nobody waiting.

#ifndef RSERVE_SRC_BACKEND_CUDA_HAND_OVER_H_
#define RSERVE_SRC_BACKEND_CUDA_HAND_OVER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "src/backend/cuda/device.h"
#include "src/backend/cuda/link.h"

namespace rserve::cuda {

// Sizes of a hand-over.
struct HandOverLimits {
  int64_t hidden_size = 0;
  int64_t max_tokens = 0;  // of a micro-batch
  int32_t places = 0;      // micro-batches from the sender's first work to Forget, at most
};

class HandOver {
 public:
  // Allocates places * max_tokens * Padded(hidden_size) bf16 on `receiver`. RESOURCE_EXHAUSTED
  // names the bytes.
  static absl::StatusOr<std::shared_ptr<HandOver>> Make(std::unique_ptr<Link> link,
                                                        Device* receiver,
                                                        const HandOverLimits& limits);
  HandOver(const HandOver&) = delete;
  HandOver& operator=(const HandOver&) = delete;

  // Rows [first_row, first_row + rows) of the micro-batch, each of Padded(hidden_size); the parts
  // of a micro-batch may be cut differently on both sides. Send: the sender's thread and stream;
  // Receive: the receiver's. RESOURCE_EXHAUSTED when all places are taken or the rows do not fit
  // one; INTERNAL when nothing was sent of the micro-batch.
  absl::Status Send(uint64_t micro_batch, int64_t first_row, int64_t rows, const Bf16* from,
                    StreamRef stream) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status Receive(uint64_t micro_batch, int64_t first_row, int64_t rows, Bf16* to,
                       StreamRef stream) ABSL_LOCKS_EXCLUDED(mutex_);
  // The micro-batch's place is free. Nothing that was queued still reads it. Any thread; no-op when
  // there is none.
  void Forget(uint64_t micro_batch) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Place {
    bool taken = false;
    uint64_t micro_batch = 0;
  };
  HandOver(std::unique_ptr<Link> link, Device* receiver, const HandOverLimits& limits,
           Memory memory);
  absl::Status CheckRows(int64_t first_row, int64_t rows) const;
  // Where the micro-batch's first row lies in the place.
  Bf16* At(size_t place, int64_t row) const;
  // Its number, or places_.size().
  size_t Find(uint64_t micro_batch) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Device* const receiver_;
  const HandOverLimits limits_;
  const int64_t width_;  // padded
  const Memory memory_;
  const std::unique_ptr<Link> link_;  // goes before the memory
  std::mutex mutex_;
  std::vector<Place> places_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace rserve::cuda

#endif  // RSERVE_SRC_BACKEND_CUDA_HAND_OVER_H_
