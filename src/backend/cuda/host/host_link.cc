#include "src/backend/cuda/host/host_link.h"

#include <atomic>
#include <cstring>
#include <utility>
#include <vector>

#include "kernels/cuda/host/stream.h"

namespace rserve::cuda {

namespace {

kernels::cuda::host::Stream* Of(StreamRef stream) {
  return static_cast<kernels::cuda::host::Stream*>(stream.handle);
}

class HostNcclLink final : public Link {
 public:
  explicit HostNcclLink(int32_t places) : mail_(static_cast<size_t>(places)) {}

  absl::Status Send(size_t place, void* to, const void* from, int64_t bytes,
                    StreamRef stream) override {
    Mail* mail = &mail_[place];
    ++mail->queued;
    Of(stream)->EnqueueTransfer([=] {
      std::memcpy(to, from, static_cast<size_t>(bytes));
      ++mail->delivered;
    });
    return absl::OkStatus();
  }

  absl::Status Arrived(size_t place, StreamRef stream) override {
    const Mail* mail = &mail_[place];
    const int64_t sent = mail->queued;
    Of(stream)->EnqueueTransfer([mail, sent, to = Of(stream)] {
      if (mail->delivered < sent) to->SetError("hidden states are read before they have come");
    });
    return absl::OkStatus();
  }

 private:
  struct Mail {
    std::atomic<int64_t> queued{0}, delivered{0};
  };
  std::vector<Mail> mail_;  // by place
};

}  // namespace

absl::StatusOr<std::shared_ptr<HandOver>> MakeHostHandOver(LinkKind kind, Device* from, Device* to,
                                                           const HandOverLimits& limits) {
  if (kind == LinkKind::kNccl && from != to) {
    return HandOver::Make(std::make_unique<HostNcclLink>(limits.places), to, limits);
  }
  absl::StatusOr<std::unique_ptr<Link>> link = MakePeerLink(from, to);
  if (!link.ok()) return link.status();
  return HandOver::Make(*std::move(link), to, limits);
}

}  // namespace rserve::cuda
