#include "src/runtime/worker.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/runtime/exception_guard.h"

namespace rserve::runtime {

Worker::Worker(int32_t index, std::vector<int> cores, Executor& executor, const Logger& logger)
    : index_(index),
      cores_(std::move(cores)),
      executor_(executor),
      logger_(logger),
      thread_(absl::StrCat("rserve-w", index), [this] { Run(); }) {}

Worker::~Worker() { jobs_.Close(); }

void Worker::Run() {
  if (!cores_.empty()) {
    if (absl::Status pinned = PinThisThread(cores_); !pinned.ok()) {
      logger_.Write(kLogWarning, "not pinned: worker", index_, pinned);
    }
  }
  while (std::optional<WorkerJob> job = jobs_.Pop()) Execute(*std::move(job));
}

void Worker::Execute(WorkerJob job) {
  job.completion->Begin(/*lane=*/0);
  const absl::Status status = RunGuarded("the executor", [&] {
    Done done = Completion::MakeDone(job.completion);
    if (auto* encode = std::get_if<EncodeJob>(&job.work)) {
      executor_.Encode(std::move(*encode), std::move(done));
    } else {
      executor_.Forward(std::get<StageJob>(std::move(job.work)), std::move(done));
    }
  });
  if (status.ok()) return;
  logger_.Write(kLogError, "worker", index_, status);
  job.completion->Finish(status);
}

}  // namespace rserve::runtime
