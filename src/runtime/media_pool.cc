#include "src/runtime/media_pool.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/runtime/exception_guard.h"

namespace rserve::runtime {

MediaPool::MediaPool(Executor& executor, const Logger& logger)
    : executor_(executor), logger_(logger) {}

void MediaPool::Start(int32_t lanes) {
  threads_.reserve(lanes);
  for (int32_t lane = 0; lane < lanes; ++lane) {
    threads_.emplace_back(absl::StrCat("rserve-m", lane), [this, lane] { Run(lane); });
  }
}

MediaPool::~MediaPool() { jobs_.Close(); }

void MediaPool::Run(int32_t lane) {
  while (std::optional<PrepareJob> job = jobs_.Pop()) {
    job->completion->Begin(lane);
    absl::Status prepared;
    absl::Status guarded =
        RunGuarded("the executor", [&] { prepared = executor_.Prepare(job->unit); });
    if (!guarded.ok()) {
      logger_.Write(kLogError, "media thread", lane, guarded);
      prepared = std::move(guarded);
    }
    job->completion->Finish(std::move(prepared));
  }
}

}  // namespace rserve::runtime
