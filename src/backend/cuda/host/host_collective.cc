#include "src/backend/cuda/host/host_collective.h"

#include <condition_variable>
#include <cstring>
#include <mutex>

#include "absl/base/thread_annotations.h"
#include "kernels/cuda/host/stream.h"
#include "src/model/weights/half.h"

namespace rserve::cuda {

namespace {

// Where the ranks meet.
class Meeting {
 public:
  explicit Meeting(int ranks) : data_(static_cast<size_t>(ranks)) {}

  // Every rank's data, once all are there. Empty after Abort.
  std::vector<const Bf16*> Join(int rank, const Bf16* data) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      data_[static_cast<size_t>(rank)] = data;
    }
    if (!Wait()) return {};
    return data_;  // is written again only after Leave
  }
  // False after Abort.
  bool Leave() { return Wait(); }

  void Abort() {
    std::lock_guard<std::mutex> lock(mutex_);
    aborted_ = true;
    changed_.notify_all();
  }

 private:
  bool Wait() {
    std::unique_lock<std::mutex> lock(mutex_);
    const uint64_t round = round_;
    if (++waiting_ == data_.size()) {
      waiting_ = 0;
      ++round_;
      changed_.notify_all();
    }
    changed_.wait(lock, [&] { return round_ != round || aborted_; });
    return !aborted_;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<const Bf16*> data_;
  size_t waiting_ = 0;
  uint64_t round_ = 0;
  bool aborted_ = false;
};

class HostCollective final : public Collective {
 public:
  HostCollective(std::shared_ptr<Meeting> meeting, int rank)
      : meeting_(std::move(meeting)), rank_(rank) {}

  absl::Status AllReduce(Bf16* data, int64_t count, StreamRef stream) override {
    static_cast<kernels::cuda::host::Stream*>(stream.handle)->Enqueue([this, data, count] {
      const std::vector<const Bf16*> all = meeting_->Join(rank_, data);
      std::vector<Bf16> sums(static_cast<size_t>(count), Bf16{0xffff});
      for (size_t i = 0; !all.empty() && i < sums.size(); ++i) {
        float sum = 0.0f;
        for (const Bf16* part : all) sum += model::BF16ToF32(part[i].bits);
        sums[i] = {model::F32ToBF16(sum)};
      }
      // Nobody reads this rank's data any more.
      if (!all.empty() && !meeting_->Leave()) sums.assign(sums.size(), Bf16{0xffff});
      std::memcpy(data, sums.data(), sums.size() * sizeof(Bf16));
    });
    return absl::OkStatus();
  }

  void Abort() override { meeting_->Abort(); }

 private:
  const std::shared_ptr<Meeting> meeting_;
  const int rank_;
};

}  // namespace

std::vector<std::unique_ptr<Collective>> MakeHostCollectives(int ranks) {
  auto meeting = std::make_shared<Meeting>(ranks);
  std::vector<std::unique_ptr<Collective>> ends;
  for (int rank = 0; rank < ranks; ++rank) {
    ends.push_back(std::make_unique<HostCollective>(meeting, rank));
  }
  return ends;
}

}  // namespace rserve::cuda
