// A Device on the CPU: kernels run under emulation, in an order that is as unkind as streams allow.
//
// Streams are queues. Work is done when somebody waits for an event - nothing runs before it must -
// or, with `background`, by a thread of the device's while others queue more. Either way the next
// operation is that of a random stream, which respects no more than the streams' own orders and the
// events - so a missing event wait, or a staging buffer that is written too early, gives wrong
// numbers. Memory begins as NaNs. Kernels get a random schedule each (kernels/cuda/host/block.h).
//
// What a GPU would refuse is an error here too: a kernel or product queued by a thread that has not
// bound the stream's device, streams and events of another device, and calls that break a recording
// of the thread's own (allocation, waiting and asking).

#ifndef RSERVE_SRC_BACKEND_CUDA_HOST_HOST_DEVICE_H_
#define RSERVE_SRC_BACKEND_CUDA_HOST_HOST_DEVICE_H_

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "kernels/cuda/host/stream.h"
#include "src/backend/cuda/device.h"

namespace rserve::cuda {

struct HostDeviceOptions {
  uint64_t seed = 1;
  // After so many operations the device is lost; negative: never.
  int64_t lost_after = -1;
  int64_t memory_bytes = int64_t{1} << 40;  // what Allocate may give in all
  bool background = false;
  bool skip_host_functions = false;  // Notify's, as a device does that has failed
  int number = 0;
  bool can_record = true;
};

class HostDevice : public Device {
 public:
  explicit HostDevice(const HostDeviceOptions& options);
  ~HostDevice() override;

  int number() const override { return options_.number; }
  absl::Status Bind() override;
  absl::StatusOr<void*> Allocate(int64_t bytes) override;
  void Free(void* memory) override;
  absl::StatusOr<void*> AllocatePinned(int64_t bytes) override;
  void FreePinned(void* memory) override;
  absl::StatusOr<StreamRef> CreateStream(const Part& part) override;
  void DestroyStream(StreamRef stream) override;
  absl::StatusOr<EventRef> CreateEvent() override;
  void DestroyEvent(EventRef event) override;
  absl::StatusOr<std::unique_ptr<Products>> CreateProducts(StreamRef stream,
                                                           bool deterministic) override;
  absl::StatusOr<std::unique_ptr<FusedAttention>> CreateFusedAttention(StreamRef stream) override;
  absl::Status ConnectTo(Device* other) override;
  absl::Status Copy(void* to, const void* from, int64_t bytes, StreamRef stream) override;
  absl::Status CopyTo(Device* other, void* to, const void* from, int64_t bytes,
                      StreamRef stream) override;
  absl::Status Record(EventRef event, StreamRef stream) override;
  absl::Status WaitFor(EventRef event, StreamRef stream) override;
  absl::Status Notify(StreamRef stream, void (*fn)(void* arg), void* arg) override;
  absl::StatusOr<bool> Reached(EventRef event) override;
  absl::Status Synchronize(EventRef event) override;
  void Quiesce(StreamRef stream) override;
  absl::Status BeginRecording(StreamRef stream) override;
  absl::StatusOr<GraphRef> EndRecording(StreamRef stream) override;
  absl::Status Replay(GraphRef graph, StreamRef stream) override;
  void DestroyGraph(GraphRef graph) override;

  // Does one operation of a random stream that can go on; false when none can.
  bool Step() ABSL_LOCKS_EXCLUDED(mutex_);

  // The device is lost after so many more operations.
  void LoseAfter(int64_t operations) ABSL_LOCKS_EXCLUDED(mutex_);
  // Every call fails from now on, but what is queued still runs: as after an error of one call that
  // has left the device whole.
  void FailCalls() ABSL_LOCKS_EXCLUDED(mutex_);

  // What is held, and what was done; for tests.
  int64_t live_allocations() const ABSL_LOCKS_EXCLUDED(mutex_);
  int64_t operations() const ABSL_LOCKS_EXCLUDED(mutex_);
  int64_t live_graphs() const ABSL_LOCKS_EXCLUDED(mutex_);
  int64_t replays() const ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status lost() const ABSL_LOCKS_EXCLUDED(mutex_);

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
  // Work of one stream, with its arguments as they were.
  struct Graph {
    std::vector<std::function<void()>> work;
  };
  class Stream final : public kernels::cuda::host::Stream {
   public:
    explicit Stream(HostDevice* device) : device_(device) {}
    void Enqueue(std::function<void()> work) override;
    void EnqueueTransfer(std::function<void()> work) override;
    // The device's mutex guards these.
    std::deque<Operation> operations;
    std::unique_ptr<Graph> recording;  // null: not recording
    std::thread::id recorder;          // whose calls are recorded

   private:
    HostDevice* const device_;
  };

  uint64_t Next();
  static Stream* Of(StreamRef stream) {
    return static_cast<Stream*>(static_cast<kernels::cuda::host::Stream*>(stream.handle));
  }
  absl::StatusOr<void*> Take(int64_t bytes) ABSL_LOCKS_EXCLUDED(mutex_);
  bool StepLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // An event, or a host function, cannot be recorded.
  absl::Status CheckNotRecording(StreamRef stream) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // What would break a recording of the calling thread.
  absl::Status CheckMayCall(const char* what) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool Owns(StreamRef stream) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Misused(const char* what) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RunInBackground();

  const HostDeviceOptions options_;
  mutable std::mutex mutex_;  // guards all that follows; held while an operation runs
  std::condition_variable changed_;
  bool stop_ = false;
  int64_t lost_after_;
  uint64_t random_;
  absl::Status lost_;    // what every call gives
  bool running_ = true;  // whether queued work runs
  int64_t operations_ = 0;
  int64_t replays_ = 0;
  int64_t taken_bytes_ = 0;
  std::set<void*> live_;
  std::vector<std::unique_ptr<Stream>> streams_;
  std::vector<std::unique_ptr<Event>> events_;
  std::vector<std::unique_ptr<Graph>> graphs_;
  std::thread thread_;  // with `background`
};

}  // namespace rserve::cuda

#endif  // RSERVE_SRC_BACKEND_CUDA_HOST_HOST_DEVICE_H_
