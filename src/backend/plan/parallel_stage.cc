#include "src/backend/plan/parallel_stage.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "src/backend/plan/quiet_thread.h"

namespace rserve::backend {

namespace {

// What every rank finds alike before it has begun: nothing is broken by it.
bool Refusal(const absl::Status& status) {
  return status.code() == absl::StatusCode::kInvalidArgument ||
         status.code() == absl::StatusCode::kResourceExhausted;
}

class ParallelStage final : public StageBackend {
 public:
  ParallelStage(std::vector<std::unique_ptr<StageBackend>> ranks, int64_t hidden_floats,
                int32_t depth, std::function<void()> abort)
      : ranks_(std::move(ranks)),
        abort_(std::move(abort)),
        rounds_(static_cast<size_t>(depth)),
        queues_(ranks_.size()) {
    for (Round& round : rounds_) {
      if (hidden_floats == 0) continue;
      // The first rank has the caller's memory.
      round.hidden.resize(ranks_.size() - 1);
      for (std::vector<float>& hidden : round.hidden) {
        hidden.resize(static_cast<size_t>(hidden_floats));
      }
    }
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      threads_.push_back(QuietThread([this, rank] { Serve(rank); }));
    }
  }

  ~ParallelStage() override {
    {
      std::unique_lock<std::mutex> lock(mutex_);
      changed_.wait(lock, [this] { return running_ == 0; });
      stop_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  absl::Status Forward(const StageWork& work) override {
    absl::Status result;
    bool over = false;
    Begin(work, /*wait=*/true, [&](absl::Status status) {
      std::lock_guard<std::mutex> lock(mutex_);
      result = std::move(status);
      over = true;
      changed_.notify_all();
    });
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return over; });
    return result;
  }

  void Start(const StageWork& work, Done done) override {
    Begin(work, /*wait=*/false, std::move(done));
  }

  void Forget(uint64_t micro_batch) override {
    for (const std::unique_ptr<StageBackend>& rank : ranks_) rank->Forget(micro_batch);
  }

 private:
  // One piece of work on its way through the ranks.
  struct Round {
    StageWork work;
    bool wait = false;  // whether the ranks' threads wait for it
    Done done;
    absl::Status refused;
    size_t left = 0;                         // ranks that are not done
    std::vector<std::vector<float>> hidden;  // where the other ranks write
  };

  void Begin(const StageWork& work, bool wait, Done done) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return running_ < rounds_.size(); });
    if (!status_.ok()) {
      absl::Status status = status_;
      lock.unlock();
      std::move(done)(std::move(status));
      return;
    }
    Round& round = rounds_[next_];
    next_ = (next_ + 1) % rounds_.size();
    round.work = work;
    round.wait = wait;
    round.done = std::move(done);
    round.refused = absl::OkStatus();
    round.left = ranks_.size();
    ++running_;
    for (std::deque<Round*>& queue : queues_) queue.push_back(&round);
    changed_.notify_all();
  }

  void Serve(size_t rank) {
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return stop_ || !queues_[rank].empty(); });
      if (queues_[rank].empty()) return;
      Round& round = *queues_[rank].front();
      queues_[rank].pop_front();
      lock.unlock();
      StageWork work = round.work;
      if (rank > 0 && work.hidden_out != nullptr && !round.hidden.empty()) {
        work.hidden_out = round.hidden[rank - 1].data();
      }
      if (round.wait) {
        End(round, ranks_[rank]->Forward(work));
      } else {
        ranks_[rank]->Start(work, [this, &round](absl::Status status) { End(round, status); });
      }
      lock.lock();
    }
  }

  void End(Round& round, const absl::Status& status) {
    bool first_error = false;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (!status.ok() && Refusal(status)) {
        round.refused = status;
      } else if (!status.ok() && status_.ok()) {
        status_ = status;
        first_error = true;
      }
    }
    if (first_error) abort_();
    Done done;
    absl::Status result;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (--round.left > 0) return;
      done = std::move(round.done);
      result = status_.ok() ? round.refused : status_;
    }
    std::move(done)(std::move(result));
    // Only now may the round be used again, or the stage go.
    std::lock_guard<std::mutex> lock(mutex_);
    --running_;
    changed_.notify_all();
  }

  const std::vector<std::unique_ptr<StageBackend>> ranks_;
  const std::function<void()> abort_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Round> rounds_;  // used in turn
  size_t next_ = 0;
  std::vector<std::deque<Round*>> queues_ ABSL_GUARDED_BY(mutex_);  // by rank
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  size_t running_ ABSL_GUARDED_BY(mutex_) = 0;  // rounds
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace

std::unique_ptr<StageBackend> MakeParallelStage(std::vector<std::unique_ptr<StageBackend>> ranks,
                                                int64_t hidden_floats, int32_t depth,
                                                std::function<void()> abort) {
  return std::make_unique<ParallelStage>(std::move(ranks), hidden_floats, depth, std::move(abort));
}

}  // namespace rserve::backend
