#include "src/backend/cuda/hand_over.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "src/backend/cuda/weights.h"

namespace rserve::cuda {

namespace {

class PeerLink final : public Link {
 public:
  PeerLink(Device* from, Device* to) : from_(from), to_(to) {}

  absl::Status Send(size_t, void* to, const void* from, int64_t bytes, StreamRef stream) override {
    return from_ == to_ ? from_->Copy(to, from, bytes, stream)
                        : from_->CopyTo(to_, to, from, bytes, stream);
  }
  absl::Status Arrived(size_t, StreamRef) override { return absl::OkStatus(); }

 private:
  Device* const from_;
  Device* const to_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Link>> MakePeerLink(Device* from, Device* to) {
  if (from != to) {
    if (absl::Status s = from->ConnectTo(to); !s.ok()) return s;
  }
  return std::unique_ptr<Link>(std::make_unique<PeerLink>(from, to));
}

absl::StatusOr<std::shared_ptr<HandOver>> HandOver::Make(std::unique_ptr<Link> link,
                                                         Device* receiver,
                                                         const HandOverLimits& limits) {
  const int64_t bytes = limits.places * limits.max_tokens * Padded(limits.hidden_size) *
                        static_cast<int64_t>(sizeof(Bf16));
  absl::StatusOr<Memory> memory = Memory::Make(receiver, Memory::Kind::kDevice, bytes);
  if (!memory.ok()) {
    return absl::Status(memory.status().code(),
                        absl::StrCat("hidden states of ", limits.places,
                                     " micro-batches (max_micro_batches) between two stages: ",
                                     memory.status().message()));
  }
  return std::shared_ptr<HandOver>(
      new HandOver(std::move(link), receiver, limits, *std::move(memory)));
}

HandOver::HandOver(std::unique_ptr<Link> link, Device* receiver, const HandOverLimits& limits,
                   Memory memory)
    : receiver_(receiver),
      limits_(limits),
      width_(Padded(limits.hidden_size)),
      memory_(std::move(memory)),
      link_(std::move(link)),
      places_(static_cast<size_t>(limits.places)) {}

absl::Status HandOver::Send(uint64_t micro_batch, int64_t first_row, int64_t rows, const Bf16* from,
                            StreamRef stream) {
  if (absl::Status s = CheckRows(first_row, rows); !s.ok()) return s;
  size_t place = 0;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    place = Find(micro_batch);
    for (size_t i = 0; place == places_.size() && i < places_.size(); ++i) {
      if (places_[i].taken) continue;
      places_[i] = {true, micro_batch};
      place = i;
      break;
    }
    if (place == places_.size()) {
      return absl::ResourceExhaustedError(
          absl::StrCat("all ", places_.size(),
                       " places for hidden states between two stages (max_micro_batches) are "
                       "taken"));
    }
  }
  return link_->Send(place, At(place, first_row), from,
                     rows * width_ * static_cast<int64_t>(sizeof(Bf16)), stream);
}

absl::Status HandOver::Receive(uint64_t micro_batch, int64_t first_row, int64_t rows, Bf16* to,
                               StreamRef stream) {
  if (absl::Status s = CheckRows(first_row, rows); !s.ok()) return s;
  size_t place = 0;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    place = Find(micro_batch);
    if (place == places_.size()) {
      return absl::InternalError(
          absl::StrCat("micro-batch ", micro_batch, " has no hidden states from the stage before"));
    }
  }
  if (absl::Status s = link_->Arrived(place, stream); !s.ok()) return s;
  return receiver_->Copy(to, At(place, first_row),
                         rows * width_ * static_cast<int64_t>(sizeof(Bf16)), stream);
}

void HandOver::Forget(uint64_t micro_batch) {
  std::lock_guard<std::mutex> lock(mutex_);
  const size_t place = Find(micro_batch);
  if (place < places_.size()) places_[place].taken = false;
}

absl::Status HandOver::CheckRows(int64_t first_row, int64_t rows) const {
  if (first_row >= 0 && rows <= limits_.max_tokens - first_row) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("rows ", first_row, " .. ", first_row + rows - 1,
                   " of a micro-batch's hidden states; there is room for ", limits_.max_tokens,
                   " (max_tokens)"));
}

Bf16* HandOver::At(size_t place, int64_t row) const {
  return static_cast<Bf16*>(memory_.data()) +
         (static_cast<int64_t>(place) * limits_.max_tokens + row) * width_;
}

size_t HandOver::Find(uint64_t micro_batch) const {
  size_t place = 0;
  while (place < places_.size() &&
         !(places_[place].taken && places_[place].micro_batch == micro_batch)) {
    ++place;
  }
  return place;
}

}  // namespace rserve::cuda
