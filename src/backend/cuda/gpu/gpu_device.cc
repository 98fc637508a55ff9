#include "src/backend/cuda/gpu/gpu_device.h"

#include <cuda_runtime_api.h>

#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "src/backend/cuda/gpu/gpu_attention.h"
#include "src/backend/cuda/gpu/gpu_parts.h"
#include "src/backend/cuda/gpu/gpu_products.h"

namespace rserve::cuda {

namespace {

std::string Explain(const char* what, cudaError_t error) {
  return absl::StrCat(what, ": ", cudaGetErrorString(error), " (", cudaGetErrorName(error), ")");
}

class GpuDevice final : public Device {
 public:
  explicit GpuDevice(int index) : index_(index) {}

  int number() const override { return index_; }

  absl::Status Bind() override {
    if (absl::Status s = Lost(); !s.ok()) return s;
    return Check("cudaSetDevice", cudaSetDevice(index_));
  }

  absl::StatusOr<void*> Allocate(int64_t bytes) override {
    if (absl::Status s = Bind(); !s.ok()) return s;
    void* memory = nullptr;
    return Allocated("device", bytes, cudaMalloc(&memory, Size(bytes)), &memory);
  }
  void Free(void* memory) override { cudaFree(memory); }

  absl::StatusOr<void*> AllocatePinned(int64_t bytes) override {
    if (absl::Status s = Bind(); !s.ok()) return s;
    void* memory = nullptr;
    return Allocated("pinned host", bytes, cudaMallocHost(&memory, Size(bytes)), &memory);
  }
  void FreePinned(void* memory) override { cudaFreeHost(memory); }

  absl::StatusOr<StreamRef> CreateStream(const Part& part) override {
    if (absl::Status s = Bind(); !s.ok()) return s;
    if (part.percent < 100) return CreateStreamOnPart(part);
    cudaStream_t stream = nullptr;
    // Not ordered with the default stream, which nobody here uses.
    if (absl::Status s =
            Check("cudaStreamCreate", cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
        !s.ok()) {
      return s;
    }
    return StreamRef{stream};
  }
  void DestroyStream(StreamRef stream) override {
    Quiesce(stream);  // what is queued may still use memory that goes next
    cudaStreamDestroy(static_cast<cudaStream_t>(stream.handle));
  }

  absl::StatusOr<EventRef> CreateEvent() override {
    if (absl::Status s = Bind(); !s.ok()) return s;
    cudaEvent_t event = nullptr;
    // The waiting thread sleeps: its core belongs to others.
    if (absl::Status s =
            Check("cudaEventCreate",
                  cudaEventCreateWithFlags(&event, cudaEventDisableTiming | cudaEventBlockingSync));
        !s.ok()) {
      return s;
    }
    return EventRef{event};
  }
  void DestroyEvent(EventRef event) override {
    cudaEventDestroy(static_cast<cudaEvent_t>(event.handle));
  }

  absl::StatusOr<std::unique_ptr<Products>> CreateProducts(StreamRef stream,
                                                           bool deterministic) override {
    if (absl::Status s = Bind(); !s.ok()) return s;
    return MakeGpuProducts(this, stream, deterministic);
  }

  absl::StatusOr<std::unique_ptr<FusedAttention>> CreateFusedAttention(StreamRef stream) override {
    if (absl::Status s = Bind(); !s.ok()) return s;
    return MakeGpuAttention(this, stream);
  }

  absl::Status ConnectTo(Device* other) override {
    if (absl::Status s = Bind(); !s.ok()) return s;
    int can = 0;
    if (absl::Status s = Check("cudaDeviceCanAccessPeer",
                               cudaDeviceCanAccessPeer(&can, index_, other->number()));
        !s.ok()) {
      return s;
    }
    if (can == 0) return absl::OkStatus();  // the driver copies through host memory
    // Already enabled, or no more peers: copies work either way.
    if (cudaDeviceEnablePeerAccess(other->number(), 0) != cudaSuccess) cudaGetLastError();
    return absl::OkStatus();
  }

  absl::Status Copy(void* to, const void* from, int64_t bytes, StreamRef stream) override {
    if (absl::Status s = Lost(); !s.ok()) return s;
    return Check("cudaMemcpyAsync",
                 cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyDefault,
                                 static_cast<cudaStream_t>(stream.handle)));
  }
  absl::Status CopyTo(Device* other, void* to, const void* from, int64_t bytes,
                      StreamRef stream) override {
    if (absl::Status s = Lost(); !s.ok()) return s;
    return Check("cudaMemcpyPeerAsync",
                 cudaMemcpyPeerAsync(to, other->number(), from, index_, static_cast<size_t>(bytes),
                                     static_cast<cudaStream_t>(stream.handle)));
  }
  absl::Status Record(EventRef event, StreamRef stream) override {
    if (absl::Status s = Lost(); !s.ok()) return s;
    return Check("cudaEventRecord", cudaEventRecord(static_cast<cudaEvent_t>(event.handle),
                                                    static_cast<cudaStream_t>(stream.handle)));
  }
  absl::Status WaitFor(EventRef event, StreamRef stream) override {
    if (absl::Status s = Lost(); !s.ok()) return s;
    return Check("cudaStreamWaitEvent",
                 cudaStreamWaitEvent(static_cast<cudaStream_t>(stream.handle),
                                     static_cast<cudaEvent_t>(event.handle), 0));
  }
  absl::Status Notify(StreamRef stream, void (*fn)(void* arg), void* arg) override {
    if (absl::Status s = Lost(); !s.ok()) return s;
    return Check("cudaLaunchHostFunc",
                 cudaLaunchHostFunc(static_cast<cudaStream_t>(stream.handle), fn, arg));
  }
  absl::StatusOr<bool> Reached(EventRef event) override {
    if (absl::Status s = Lost(); !s.ok()) return s;
    const cudaError_t error = cudaEventQuery(static_cast<cudaEvent_t>(event.handle));
    if (error == cudaErrorNotReady) {
      cudaGetLastError();  // it is kept as this thread's last error
      return false;
    }
    if (absl::Status s = Check("cudaEventQuery", error); !s.ok()) return s;
    return true;
  }
  absl::Status Synchronize(EventRef event) override {
    if (absl::Status s = Lost(); !s.ok()) return s;
    return Check("cudaEventSynchronize",
                 cudaEventSynchronize(static_cast<cudaEvent_t>(event.handle)));
  }

  void Quiesce(StreamRef stream) override {
    // A broken context answers at once, and runs nothing any more.
    if (cudaStreamSynchronize(static_cast<cudaStream_t>(stream.handle)) != cudaSuccess) {
      cudaGetLastError();
    }
  }

  absl::Status BeginRecording(StreamRef stream) override {
    if (absl::Status s = Lost(); !s.ok()) return s;
    // This thread's calls only: others may allocate or ask for events meanwhile.
    return Attempt("cudaStreamBeginCapture",
                   cudaStreamBeginCapture(static_cast<cudaStream_t>(stream.handle),
                                          cudaStreamCaptureModeThreadLocal));
  }
  absl::StatusOr<GraphRef> EndRecording(StreamRef stream) override {
    cudaGraph_t graph = nullptr;
    absl::Status ended =
        Attempt("cudaStreamEndCapture",
                cudaStreamEndCapture(static_cast<cudaStream_t>(stream.handle), &graph));
    cudaGraphExec_t made = nullptr;
    if (ended.ok()) {
      ended = Attempt("cudaGraphInstantiate", cudaGraphInstantiate(&made, graph, 0));
    }
    if (graph != nullptr) cudaGraphDestroy(graph);
    if (!ended.ok()) return ended;
    return GraphRef{made};
  }
  absl::Status Replay(GraphRef graph, StreamRef stream) override {
    if (absl::Status s = Lost(); !s.ok()) return s;
    return Check("cudaGraphLaunch", cudaGraphLaunch(static_cast<cudaGraphExec_t>(graph.handle),
                                                    static_cast<cudaStream_t>(stream.handle)));
  }
  void DestroyGraph(GraphRef graph) override {
    cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(graph.handle));
  }

 private:
  static size_t Size(int64_t bytes) { return static_cast<size_t>(bytes < 1 ? 1 : bytes); }

  absl::Status Lost() ABSL_LOCKS_EXCLUDED(mutex_) {
    std::lock_guard<std::mutex> lock(mutex_);
    return lost_;
  }

  // The first error stays: after it the context answers nothing else.
  absl::Status Check(const char* what, cudaError_t error) ABSL_LOCKS_EXCLUDED(mutex_) {
    if (error == cudaSuccess) return absl::OkStatus();
    std::lock_guard<std::mutex> lock(mutex_);
    if (lost_.ok()) {
      lost_ = absl::UnavailableError(absl::StrCat("GPU ", index_, ": ", Explain(what, error)));
    }
    return lost_;
  }

  // What may fail and leave the context as it was; a context that is broken shows in the next call.
  static absl::Status Attempt(const char* what, cudaError_t error) {
    if (error == cudaSuccess) return absl::OkStatus();
    cudaGetLastError();
    return absl::UnavailableError(Explain(what, error));
  }

  // A part is cut when the first stream asks for it, and its two sides serve all later ones.
  absl::StatusOr<StreamRef> CreateStreamOnPart(const Part& part) ABSL_LOCKS_EXCLUDED(mutex_) {
    std::lock_guard<std::mutex> lock(mutex_);
    std::unique_ptr<GpuParts>& parts = parts_[part.percent];
    if (parts == nullptr) {
      absl::StatusOr<std::unique_ptr<GpuParts>> cut = CutGpu(index_, part.percent);
      if (!cut.ok()) return cut.status();
      parts = *std::move(cut);
    }
    return parts->CreateStream(part.rest);
  }

  absl::StatusOr<void*> Allocated(const char* kind, int64_t bytes, cudaError_t error,
                                  void** memory) {
    if (error == cudaErrorMemoryAllocation) {
      cudaGetLastError();  // not sticky: the caller may ask for less
      size_t free_bytes = 0, all_bytes = 0;
      cudaMemGetInfo(&free_bytes, &all_bytes);
      return absl::ResourceExhaustedError(absl::StrCat("GPU ", index_, " has no ", bytes,
                                                       " bytes of ", kind, " memory; ", free_bytes,
                                                       " of ", all_bytes, " are free"));
    }
    if (absl::Status s = Check("allocation", error); !s.ok()) return s;
    return *memory;
  }

  const int index_;
  std::mutex mutex_;
  absl::Status lost_ ABSL_GUARDED_BY(mutex_);
  std::map<int32_t, std::unique_ptr<GpuParts>> parts_ ABSL_GUARDED_BY(mutex_);  // by percentage
};

}  // namespace

absl::StatusOr<std::unique_ptr<Device>> OpenGpu(int index) {
  int count = 0;
  if (const cudaError_t error = cudaGetDeviceCount(&count); error != cudaSuccess) {
    cudaGetLastError();
    return absl::UnavailableError(Explain("no usable GPU", error));
  }
  if (index < 0 || index >= count) {
    return absl::UnavailableError(
        absl::StrCat("there is no GPU ", index, "; the driver shows ", count));
  }
  int major = 0;
  if (const cudaError_t error =
          cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, index);
      error != cudaSuccess) {
    return absl::UnavailableError(Explain("compute capability", error));
  }
  if (major < 8) {
    return absl::UnavailableError(
        absl::StrCat("GPU ", index, " has compute capability ", major, "; 8.0 is the least"));
  }
  return std::unique_ptr<Device>(std::make_unique<GpuDevice>(index));
}

}  // namespace rserve::cuda
