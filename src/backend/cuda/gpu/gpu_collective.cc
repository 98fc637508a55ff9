#include "src/backend/cuda/gpu/gpu_collective.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <nccl.h>

#include <mutex>
#include <type_traits>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"

namespace rserve::cuda {

namespace {

constexpr char kNcclLibrary[] = "libnccl.so.2";

// NCCL's functions, found at run time. The library stays open.
struct Nccl {
  decltype(&ncclCommInitAll) init_all = nullptr;
  decltype(&ncclAllReduce) all_reduce = nullptr;
  decltype(&ncclCommDestroy) destroy = nullptr;
  decltype(&ncclCommAbort) abort = nullptr;
  decltype(&ncclGetErrorString) explain = nullptr;
};

absl::StatusOr<Nccl> OpenNccl() {
  void* library = dlopen(kNcclLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return absl::UnavailableError(
        absl::StrCat("several GPUs in a stage need NCCL, which cannot be opened: ", dlerror()));
  }
  Nccl nccl;
  bool all = true;
  const auto find = [&](const char* name, auto* function) {
    *function = reinterpret_cast<std::remove_pointer_t<decltype(function)>>(dlsym(library, name));
    all = all && *function != nullptr;
  };
  find("ncclCommInitAll", &nccl.init_all);
  find("ncclAllReduce", &nccl.all_reduce);
  find("ncclCommDestroy", &nccl.destroy);
  find("ncclCommAbort", &nccl.abort);
  find("ncclGetErrorString", &nccl.explain);
  if (!all) {
    return absl::UnavailableError(absl::StrCat(kNcclLibrary, " lacks a function that is needed"));
  }
  return nccl;
}

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
    const ncclResult_t result =
        nccl_.all_reduce(data, data, static_cast<size_t>(count), ncclBfloat16, ncclSum,
                         comms_[rank], static_cast<cudaStream_t>(stream.handle));
    if (result == ncclSuccess) return absl::OkStatus();
    return absl::UnavailableError(absl::StrCat("NCCL all-reduce: ", nccl_.explain(result)));
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
  std::vector<ncclComm_t> comms(gpus.size());
  if (const ncclResult_t result =
          nccl->init_all(comms.data(), static_cast<int>(gpus.size()), gpus.data());
      result != ncclSuccess) {
    return absl::UnavailableError(
        absl::StrCat("NCCL over ", gpus.size(), " GPUs: ", nccl->explain(result)));
  }
  auto all = std::make_shared<Communicators>(*nccl, std::move(comms));
  std::vector<std::unique_ptr<Collective>> ends;
  for (size_t rank = 0; rank < gpus.size(); ++rank) {
    ends.push_back(std::make_unique<GpuCollective>(all, rank));
  }
  return ends;
}

}  // namespace rserve::cuda
