#include "src/backend/cuda/parallel_stage.h"

#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "absl/status/status.h"

namespace rserve::cuda {

namespace {

class ParallelStage final : public backend::StageBackend {
 public:
  ParallelStage(std::vector<std::unique_ptr<backend::StageBackend>> ranks, int64_t hidden_floats,
                std::function<void()> abort)
      : ranks_(std::move(ranks)), abort_(std::move(abort)), hidden_(ranks_.size()) {
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      if (rank > 0) hidden_[rank].resize(static_cast<size_t>(hidden_floats));
      threads_.emplace_back([this, rank] { Serve(rank); });
    }
  }

  ~ParallelStage() override {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  absl::Status Forward(const backend::StageWork& work) override {
    std::unique_lock<std::mutex> lock(mutex_);
    if (!status_.ok()) return status_;
    absl::Status refused;
    refused_ = &refused;
    work_ = &work;
    running_ = ranks_.size();
    ++round_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return running_ == 0; });
    work_ = nullptr;
    refused_ = nullptr;
    return status_.ok() ? refused : status_;
  }

 private:
  // What every rank finds alike before it has queued anything: nothing is broken by it.
  static bool Refusal(const absl::Status& status) {
    return status.code() == absl::StatusCode::kInvalidArgument ||
           status.code() == absl::StatusCode::kResourceExhausted;
  }

  void Serve(size_t rank) {
    uint64_t seen = 0;
    for (;;) {
      backend::StageWork work;
      {
        std::unique_lock<std::mutex> lock(mutex_);
        changed_.wait(lock, [&] { return stop_ || round_ != seen; });
        if (stop_) return;
        seen = round_;
        work = *work_;
      }
      // The same values as the first rank's, which has the caller's memory.
      if (rank > 0 && work.hidden_out != nullptr) work.hidden_out = hidden_[rank].data();
      const absl::Status status = ranks_[rank]->Forward(work);
      bool first_error = false;
      {
        std::lock_guard<std::mutex> lock(mutex_);
        if (!status.ok() && Refusal(status)) {
          *refused_ = status;
        } else if (!status.ok() && status_.ok()) {
          status_ = status;
          first_error = true;
        }
      }
      if (first_error) abort_();
      std::lock_guard<std::mutex> lock(mutex_);
      if (--running_ == 0) changed_.notify_all();
    }
  }

  const std::vector<std::unique_ptr<backend::StageBackend>> ranks_;
  const std::function<void()> abort_;
  std::vector<std::vector<float>> hidden_;  // where the other ranks write
  std::mutex mutex_;
  std::condition_variable changed_;
  const backend::StageWork* work_ = nullptr;
  absl::Status* refused_ = nullptr;
  absl::Status status_;
  size_t running_ = 0;
  uint64_t round_ = 0;
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace

std::unique_ptr<backend::StageBackend> MakeParallelStage(
    std::vector<std::unique_ptr<backend::StageBackend>> ranks, int64_t hidden_floats,
    std::function<void()> abort) {
  return std::make_unique<ParallelStage>(std::move(ranks), hidden_floats, std::move(abort));
}

}  // namespace rserve::cuda
