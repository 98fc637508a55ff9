// Link: the way from one device to another, for hidden states. A peer copy on the host and on GPUs;
// on GPUs also NCCL.

#ifndef RSERVE_SRC_BACKEND_CUDA_LINK_H_
#define RSERVE_SRC_BACKEND_CUDA_LINK_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "src/backend/cuda/device.h"

namespace rserve::cuda {

enum class LinkKind : int32_t { kPeer = 0, kNccl = 1 };

// What is sent goes to one of a few places of the receiver's, numbered from 0. Of a place, Send and
// Arrived alternate. Goes before both devices.
class Link {
 public:
  virtual ~Link() = default;
  // Queues on `stream`, the sender's: `bytes` from its memory to `to`, the receiver's memory.
  virtual absl::Status Send(size_t place, void* to, const void* from, int64_t bytes,
                            StreamRef stream) = 0;
  // Queues on `stream`, the receiver's: what follows finds what was sent to the place. Called once
  // the sender's stream is through with it.
  virtual absl::Status Arrived(size_t place, StreamRef stream) = 0;
};

// Copies on the sender's stream, which are done when that stream is. `from` and `to` may be the
// same device.
absl::StatusOr<std::unique_ptr<Link>> MakePeerLink(Device* from, Device* to);

}  // namespace rserve::cuda

#endif  // RSERVE_SRC_BACKEND_CUDA_LINK_H_
