#include "src/backend/cuda/gpu/gpu_collective.h"

#include <cuda_runtime_api.h>

#include <mutex>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "src/backend/cuda/gpu/nccl_library.h"

namespace rserve::cuda {

namespace {

// The communicators of all ranks; goes with the last rank's end.
class Communicators {
 public:
  Communicators(const Nccl& nccl, std::vector<ncclComm_t> comms)
      : nccl_(nccl), comms_(std::move(comms)) {}
  ~Communicators() {
    if (aborted_) return;
    for (ncclComm_t comm : comms_) nccl_.destroy(comm);
  }

  absl::Status AllReduce(size_t rank, Bf16* data, int64_t count, StreamRef stream)
      ABSL_LOCKS_EXCLUDED(mutex_) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (aborted_) return absl::UnavailableError("the stage's communicator was ended");
    }
    return Explain(nccl_, "all-reduce",
                   nccl_.all_reduce(data, data, static_cast<size_t>(count), ncclBfloat16, ncclSum,
                                    comms_[rank], static_cast<cudaStream_t>(stream.handle)));
  }

  void Abort() ABSL_LOCKS_EXCLUDED(mutex_) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (aborted_) return;
      aborted_ = true;
    }
    for (ncclComm_t comm : comms_) nccl_.abort(comm);
  }

 private:
  const Nccl nccl_;
  const std::vector<ncclComm_t> comms_;
  std::mutex mutex_;
  bool aborted_ ABSL_GUARDED_BY(mutex_) = false;
};

class GpuCollective final : public Collective {
 public:
  GpuCollective(std::shared_ptr<Communicators> all, size_t rank)
      : all_(std::move(all)), rank_(rank) {}
  absl::Status AllReduce(Bf16* data, int64_t count, StreamRef stream) override {
    return all_->AllReduce(rank_, data, count, stream);
  }
  void Abort() override { all_->Abort(); }

 private:
  const std::shared_ptr<Communicators> all_;
  const size_t rank_;
};

}  // namespace

absl::StatusOr<std::vector<std::unique_ptr<Collective>>> MakeGpuCollectives(
    const std::vector<int>& gpus) {
  const absl::StatusOr<Nccl> nccl = OpenNccl();
  if (!nccl.ok()) return nccl.status();
  absl::StatusOr<std::vector<ncclComm_t>> comms = Connect(*nccl, gpus);
  if (!comms.ok()) return comms.status();
  auto all = std::make_shared<Communicators>(*nccl, *std::move(comms));
  std::vector<std::unique_ptr<Collective>> ends;
  for (size_t rank = 0; rank < gpus.size(); ++rank) {
    ends.push_back(std::make_unique<GpuCollective>(all, rank));
  }
  return ends;
}

}  // namespace rserve::cuda
