// A Device on the CPU: kernels run under emulation, and nothing runs before it must.
//
// Streams are queues. Work is done only when somebody waits for an event, and then in a random
// order of the streams that respects no more than the streams' own orders and the events - so a
// missing event wait, or a staging buffer that is written too early, gives wrong numbers. Memory
// begins as NaNs. Kernels get a random schedule each (kernels/cuda/host/block.h).

#ifndef RSERVE_SRC_BACKEND_CUDA_HOST_HOST_DEVICE_H_
#define RSERVE_SRC_BACKEND_CUDA_HOST_HOST_DEVICE_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <vector>

#include "kernels/cuda/host/stream.h"
#include "src/backend/cuda/device.h"

namespace rserve::cuda {

struct HostDeviceOptions {
  uint64_t seed = 1;
  // After so many operations the device is lost; negative: never.
  int64_t lost_after = -1;
  int64_t memory_bytes = int64_t{1} << 40;  // what Allocate may give in all
};

// One thread at a time, all streams included.
class HostDevice : public Device {
 public:
  explicit HostDevice(const HostDeviceOptions& options)
      : options_(options), random_(options.seed * 0x9e3779b97f4a7c15u + 1) {}
  ~HostDevice() override;

  absl::Status Bind() override { return lost_; }
  absl::StatusOr<void*> Allocate(int64_t bytes) override;
  void Free(void* memory) override;
  absl::StatusOr<void*> AllocatePinned(int64_t bytes) override;
  void FreePinned(void* memory) override;
  absl::StatusOr<StreamRef> CreateStream() override;
  void DestroyStream(StreamRef stream) override;
  absl::StatusOr<EventRef> CreateEvent() override;
  void DestroyEvent(EventRef event) override;
  absl::StatusOr<std::unique_ptr<Products>> CreateProducts(StreamRef stream,
                                                           bool deterministic) override;
  absl::Status Copy(void* to, const void* from, int64_t bytes, StreamRef stream) override;
  absl::Status Record(EventRef event, StreamRef stream) override;
  absl::Status WaitFor(EventRef event, StreamRef stream) override;
  absl::Status Synchronize(EventRef event) override;

  // What is held, and what was done; for tests.
  int64_t live_allocations() const { return static_cast<int64_t>(live_.size()); }
  int64_t operations() const { return operations_; }
  const absl::Status& lost() const { return lost_; }

 private:
  struct Event {
    uint64_t recorded = 0;
    uint64_t reached = 0;
  };
  // Either work, or a wait for an event.
  struct Operation {
    std::function<void()> work;
    const Event* event = nullptr;
    uint64_t until = 0;
  };
  class Stream final : public kernels::cuda::host::Stream {
   public:
    void Enqueue(std::function<void()> work) override {
      operations.push_back({std::move(work), nullptr, 0});
    }
    std::deque<Operation> operations;
  };

  uint64_t Next();
  static Stream* Of(StreamRef stream) {
    return static_cast<Stream*>(static_cast<kernels::cuda::host::Stream*>(stream.handle));
  }
  // Does one operation of a random stream that can go on. False when none can.
  bool Step();
  absl::StatusOr<void*> Take(int64_t bytes);

  const HostDeviceOptions options_;
  uint64_t random_;
  absl::Status lost_;
  int64_t operations_ = 0;
  int64_t taken_bytes_ = 0;
  std::set<void*> live_;
  std::vector<std::unique_ptr<Stream>> streams_;
  std::vector<std::unique_ptr<Event>> events_;
};

}  // namespace rserve::cuda

#endif  // RSERVE_SRC_BACKEND_CUDA_HOST_HOST_DEVICE_H_
