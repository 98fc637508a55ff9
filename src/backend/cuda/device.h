// Device: what the backend asks of CUDA's runtime and of cuBLASLt. gpu/ does it on a GPU, host/ on
// the CPU, so that the backend's own code runs in tests on any machine.
//
// Work is queued on streams and done in each stream's order; nothing here waits but Synchronize,
// and nothing allocates but the functions that say so, which are for construction only.
//
// A device that fails is lost for good: every later call returns the first error (code UNAVAILABLE,
// or INTERNAL for a fault of a kernel), and destruction still works.

#ifndef RSERVE_SRC_BACKEND_CUDA_DEVICE_H_
#define RSERVE_SRC_BACKEND_CUDA_DEVICE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/types.h"
#include "src/backend/cuda/fused_attention.h"

namespace rserve::cuda {

using kernels::cuda::Bf16;
using kernels::cuda::StreamRef;

struct EventRef {
  void* handle = nullptr;
};
// Recorded work, ready to be queued again.
struct GraphRef {
  void* handle = nullptr;
};

// y[m][n] = x[m][k] w[n][k]^T (+ bias[n]) (+ residual[m][n]), summed in f32, rounded once. n and k
// are multiples of 8 and rows 16-byte aligned, as tensor cores want them; the weight loader pads.
struct ProductArgs {
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  const Bf16* x = nullptr;
  int64_t x_stride = 0;
  const Bf16* w = nullptr;  // [n][k], contiguous
  const Bf16* bias = nullptr;
  const Bf16* residual = nullptr;  // stride of y; may be y; not with y_f32
  Bf16* y = nullptr;               // one of y and y_f32
  float* y_f32 = nullptr;
  int64_t y_stride = 0;
};

// Products of one stream; owns its workspace. Used by one thread at a time.
class Products {
 public:
  virtual ~Products() = default;
  virtual absl::Status Run(const ProductArgs& args) = 0;
};

// The part of a device's multiprocessors that a stream's kernels run on.
struct Part {
  int32_t percent = 100;  // rounded to what the device can cut
  bool rest = false;      // those that the part of this percentage leaves over
};

// Any thread; streams by one thread at a time. Outlives everything that was made from it.
class Device {
 public:
  virtual ~Device() = default;

  virtual int number() const = 0;  // among the machine's

  // Makes the device the calling thread's, which launchers take. Before anything is queued.
  virtual absl::Status Bind() = 0;

  // Construction only. RESOURCE_EXHAUSTED names the bytes. Device memory is 256-byte aligned.
  virtual absl::StatusOr<void*> Allocate(int64_t bytes) = 0;
  virtual void Free(void* memory) = 0;
  virtual absl::StatusOr<void*> AllocatePinned(int64_t bytes) = 0;
  virtual void FreePinned(void* memory) = 0;
  virtual absl::StatusOr<StreamRef> CreateStream(const Part& part) = 0;
  virtual void DestroyStream(StreamRef stream) = 0;
  virtual absl::StatusOr<EventRef> CreateEvent() = 0;
  virtual void DestroyEvent(EventRef event) = 0;
  // `deterministic`: one algorithm for each weight shape whatever m is, and no split of k.
  virtual absl::StatusOr<std::unique_ptr<Products>> CreateProducts(StreamRef stream,
                                                                   bool deterministic) = 0;
  // UNAVAILABLE with the reason where the device has no library for it.
  virtual absl::StatusOr<std::unique_ptr<FusedAttention>> CreateFusedAttention(
      StreamRef stream) = 0;

  // Lets this device write into the other's memory without a detour, where the machine can: once,
  // before CopyTo. Copies work either way.
  virtual absl::Status ConnectTo(Device* other) = 0;

  // Queued. Between device and pinned memory, or within the device.
  virtual absl::Status Copy(void* to, const void* from, int64_t bytes, StreamRef stream) = 0;
  // Queued on a stream of this device: from its memory into the other's.
  virtual absl::Status CopyTo(Device* other, void* to, const void* from, int64_t bytes,
                              StreamRef stream) = 0;
  virtual absl::Status Record(EventRef event, StreamRef stream) = 0;
  // What is queued on `stream` from now on waits for the event's last record.
  virtual absl::Status WaitFor(EventRef event, StreamRef stream) = 0;

  // Calls fn(arg) on a thread of the device's when it is reached; short, without calls of the
  // device. A device that is lost calls nothing.
  virtual absl::Status Notify(StreamRef stream, void (*fn)(void* arg), void* arg) = 0;

  // Whether the event's last record has been reached. Does not wait.
  virtual absl::StatusOr<bool> Reached(EventRef event) = 0;
  // Blocks until the event's last record has been reached.
  virtual absl::Status Synchronize(EventRef event) = 0;
  // Blocks until nothing that was queued on `stream` can run any more, host functions included:
  // also after a call has failed while the device itself goes on. For destruction.
  virtual void Quiesce(StreamRef stream) = 0;

  // What this thread queues on `stream` between the two is not done but recorded, with the
  // arguments of its launches as they are: launches, products and copies; no events, nothing that
  // waits. A failure of these two leaves the device as it was (unless it is lost), and the stream
  // records nothing any more.
  virtual absl::Status BeginRecording(StreamRef stream) = 0;
  virtual absl::StatusOr<GraphRef> EndRecording(StreamRef stream) = 0;
  // Queued: all that was recorded.
  virtual absl::Status Replay(GraphRef graph, StreamRef stream) = 0;
  // Nothing that was replayed of it may still run.
  virtual void DestroyGraph(GraphRef graph) = 0;
};

// ---- Ownership ----------------------------------------------------------------------------------

// Device or pinned host memory.
class Memory {
 public:
  enum class Kind { kDevice, kPinned };
  Memory() = default;
  Memory(Memory&& other) noexcept { *this = std::move(other); }
  Memory& operator=(Memory&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(data_, other.data_);
    std::swap(kind_, other.kind_);
    return *this;
  }
  ~Memory() {
    if (data_ == nullptr) return;
    kind_ == Kind::kDevice ? device_->Free(data_) : device_->FreePinned(data_);
  }

  static absl::StatusOr<Memory> Make(Device* device, Kind kind, int64_t bytes) {
    absl::StatusOr<void*> data =
        kind == Kind::kDevice ? device->Allocate(bytes) : device->AllocatePinned(bytes);
    if (!data.ok()) return data.status();
    Memory memory;
    memory.device_ = device;
    memory.kind_ = kind;
    memory.data_ = *data;
    return memory;
  }

  void* data() const { return data_; }

 private:
  Device* device_ = nullptr;
  void* data_ = nullptr;
  Kind kind_ = Kind::kDevice;
};

// A stream with its products and the event that says that its work is done.
class Timeline {
 public:
  Timeline() = default;
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;
  ~Timeline() {
    products_.reset();
    if (done_.handle != nullptr) device_->DestroyEvent(done_);
    if (stream_.handle != nullptr) device_->DestroyStream(stream_);
  }

  absl::Status Init(Device* device, bool deterministic, const Part& part = {}) {
    device_ = device;
    if (absl::Status s = device->Bind(); !s.ok()) return s;
    absl::StatusOr<StreamRef> stream = device->CreateStream(part);
    if (!stream.ok()) return stream.status();
    stream_ = *stream;
    absl::StatusOr<EventRef> done = device->CreateEvent();
    if (!done.ok()) return done.status();
    done_ = *done;
    auto products = device->CreateProducts(stream_, deterministic);
    if (!products.ok()) return products.status();
    products_ = *std::move(products);
    return absl::OkStatus();
  }

  Device* device() const { return device_; }
  StreamRef stream() const { return stream_; }
  Products* products() const { return products_.get(); }

  // Blocks until all that is queued is done.
  absl::Status Finish() {
    if (absl::Status s = device_->Record(done_, stream_); !s.ok()) return s;
    return device_->Synchronize(done_);
  }

 private:
  Device* device_ = nullptr;
  StreamRef stream_;
  EventRef done_;
  std::unique_ptr<Products> products_;
};

}  // namespace rserve::cuda

#endif  // RSERVE_SRC_BACKEND_CUDA_DEVICE_H_
