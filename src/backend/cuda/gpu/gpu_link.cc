#include "src/backend/cuda/gpu/gpu_link.h"

#include <cuda_runtime_api.h>

#include <utility>
#include <vector>

#include "src/backend/cuda/gpu/nccl_library.h"

namespace rserve::cuda {

namespace {

class NcclLink final : public Link {
 public:
  NcclLink(const Nccl& nccl, Device* from, Device* to) : nccl_(nccl), from_(from), to_(to) {}
  ~NcclLink() override {
    // From a GPU that is lost, nothing comes that would end a receive.
    const bool lost = !from_->Bind().ok() || !to_->Bind().ok();
    for (ncclComm_t comm : comms_) lost ? nccl_.abort(comm) : nccl_.destroy(comm);
    for (EventRef event : arrived_) to_->DestroyEvent(event);
    if (inbox_.handle != nullptr) to_->DestroyStream(inbox_);
  }

  absl::Status Init(int32_t places) {
    absl::StatusOr<StreamRef> inbox = to_->CreateStream({});
    if (!inbox.ok()) return inbox.status();
    inbox_ = *inbox;
    for (int32_t i = 0; i < places; ++i) {
      absl::StatusOr<EventRef> event = to_->CreateEvent();
      if (!event.ok()) return event.status();
      arrived_.push_back(*event);
    }
    absl::StatusOr<std::vector<ncclComm_t>> comms =
        Connect(nccl_, {from_->number(), to_->number()});
    if (!comms.ok()) return comms.status();
    comms_ = *std::move(comms);
    return absl::OkStatus();
  }

  absl::Status Send(size_t place, void* to, const void* from, int64_t bytes,
                    StreamRef stream) override {
    const auto size = static_cast<size_t>(bytes);
    ncclResult_t result = nccl_.group_start();
    if (result != ncclSuccess) return Explain(nccl_, "group", result);
    result =
        nccl_.send(from, size, ncclUint8, 1, comms_[0], static_cast<cudaStream_t>(stream.handle));
    if (result == ncclSuccess) {
      result = nccl_.receive(to, size, ncclUint8, 0, comms_[1],
                             static_cast<cudaStream_t>(inbox_.handle));
    }
    const ncclResult_t ended = nccl_.group_end();
    if (absl::Status s = Explain(nccl_, "send", result == ncclSuccess ? ended : result); !s.ok()) {
      return s;
    }
    return to_->Record(arrived_[place], inbox_);
  }

  // The event's last record is the place's own last piece: a later micro-batch has another place.
  absl::Status Arrived(size_t place, StreamRef stream) override {
    return to_->WaitFor(arrived_[place], stream);
  }

 private:
  const Nccl nccl_;
  Device* const from_;
  Device* const to_;
  StreamRef inbox_;
  std::vector<EventRef> arrived_;  // by place
  std::vector<ncclComm_t> comms_;  // the sender's end, the receiver's
};

absl::StatusOr<std::unique_ptr<Link>> MakeNcclLink(Device* from, Device* to, int32_t places) {
  absl::StatusOr<Nccl> nccl = OpenNccl();
  if (!nccl.ok()) return nccl.status();
  auto link = std::make_unique<NcclLink>(*nccl, from, to);
  if (absl::Status s = link->Init(places); !s.ok()) return s;
  return link;
}

}  // namespace

absl::StatusOr<std::shared_ptr<HandOver>> MakeGpuHandOver(LinkKind kind, Device* from, Device* to,
                                                          const HandOverLimits& limits) {
  absl::StatusOr<std::unique_ptr<Link>> link = kind == LinkKind::kNccl && from != to
                                                   ? MakeNcclLink(from, to, limits.places)
                                                   : MakePeerLink(from, to);
  if (!link.ok()) return link.status();
  return HandOver::Make(*std::move(link), to, limits);
}

}  // namespace rserve::cuda
