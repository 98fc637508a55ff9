#include "src/backend/cpu/cpu_collective.h"

#include <condition_variable>
#include <mutex>
#include <utility>

#include "absl/base/thread_annotations.h"

namespace rserve::cpu {

namespace {

// Where the ranks meet.
class Meeting {
 public:
  explicit Meeting(int32_t ranks) : parts_(static_cast<size_t>(ranks)) {}

  absl::StatusOr<absl::Span<const float* const>> Join(int32_t rank, const float* part) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      parts_[static_cast<size_t>(rank)] = part;
    }
    if (absl::Status s = Wait(); !s.ok()) return s;
    return absl::MakeConstSpan(parts_);  // is written again only after Leave
  }

  absl::Status Wait() {
    std::unique_lock<std::mutex> lock(mutex_);
    const uint64_t round = round_;
    if (++waiting_ == parts_.size()) {
      waiting_ = 0;
      ++round_;
      changed_.notify_all();
    }
    changed_.wait(lock, [&] { return round_ != round || aborted_; });
    if (aborted_) return absl::UnavailableError("another rank of the stage has failed");
    return absl::OkStatus();
  }

  void Abort() {
    std::lock_guard<std::mutex> lock(mutex_);
    aborted_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<const float*> parts_;  // by rank
  size_t waiting_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t round_ ABSL_GUARDED_BY(mutex_) = 0;
  bool aborted_ ABSL_GUARDED_BY(mutex_) = false;
};

class RankEnd final : public CpuCollective {
 public:
  RankEnd(std::shared_ptr<Meeting> meeting, int32_t rank)
      : meeting_(std::move(meeting)), rank_(rank) {}
  absl::StatusOr<absl::Span<const float* const>> Join(const float* part) override {
    return meeting_->Join(rank_, part);
  }
  absl::Status Leave() override { return meeting_->Wait(); }
  void Abort() override { meeting_->Abort(); }

 private:
  const std::shared_ptr<Meeting> meeting_;
  const int32_t rank_;
};

}  // namespace

std::vector<std::unique_ptr<CpuCollective>> MakeCpuCollectives(int32_t ranks) {
  auto meeting = std::make_shared<Meeting>(ranks);
  std::vector<std::unique_ptr<CpuCollective>> ends;
  for (int32_t rank = 0; rank < ranks; ++rank) {
    ends.push_back(std::make_unique<RankEnd>(meeting, rank));
  }
  return ends;
}

}  // namespace rserve::cpu
