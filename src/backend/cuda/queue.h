// Queueing work on a timeline: the first failure stays and nothing is queued after it.

#ifndef RSERVE_SRC_BACKEND_CUDA_QUEUE_H_
#define RSERVE_SRC_BACKEND_CUDA_QUEUE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "src/backend/cuda/collective.h"
#include "src/backend/cuda/device.h"

namespace rserve::cuda {

inline absl::Status ToStatus(const kernels::cuda::Result& result) {
  switch (result.code) {
    case kernels::cuda::Result::Code::kOk:
      return absl::OkStatus();
    case kernels::cuda::Result::Code::kUnsupported:
      return absl::UnimplementedError(result.what);
    case kernels::cuda::Result::Code::kInvalid:
      return absl::InternalError(result.what);
    case kernels::cuda::Result::Code::kFailed:
      break;
  }
  return absl::UnavailableError(
      absl::StrCat("the device refused a launch (", result.what, "), error ", result.native));
}

class Queue {
 public:
  explicit Queue(Timeline* timeline) : timeline_(timeline), status_(timeline->device()->Bind()) {}

  template <typename Args>
  void Launch(kernels::cuda::Result (*launcher)(const Args&, StreamRef), const Args& args) {
    if (status_.ok()) status_ = ToStatus(launcher(args, timeline_->stream()));
  }
  void Product(const ProductArgs& args) {
    if (status_.ok() && args.m > 0) status_ = timeline_->products()->Run(args);
  }
  void Copy(void* to, const void* from, int64_t bytes) {
    if (status_.ok() && bytes > 0) {
      status_ = timeline_->device()->Copy(to, from, bytes, timeline_->stream());
    }
  }
  // Into the memory of `other`, which may be this device.
  void CopyTo(Device* other, void* to, const void* from, int64_t bytes) {
    Device* device = timeline_->device();
    if (other == device) return Copy(to, from, bytes);
    if (status_.ok() && bytes > 0) {
      status_ = device->CopyTo(other, to, from, bytes, timeline_->stream());
    }
  }
  void AllReduce(Collective* collective, Bf16* data, int64_t count) {
    if (status_.ok()) status_ = collective->AllReduce(data, count, timeline_->stream());
  }
  void Replay(GraphRef graph) {
    if (status_.ok()) status_ = timeline_->device()->Replay(graph, timeline_->stream());
  }
  void Note(const absl::Status& status) {
    if (status_.ok()) status_ = status;
  }
  const absl::Status& status() const { return status_; }
  // Waits for all of it. The first error, or the device's.
  absl::Status Finish() {
    const absl::Status finished = timeline_->Finish();
    return status_.ok() ? finished : status_;
  }

 private:
  Timeline* timeline_;
  absl::Status status_;
};

}  // namespace rserve::cuda

#endif  // RSERVE_SRC_BACKEND_CUDA_QUEUE_H_
