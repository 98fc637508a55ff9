// Worker: the thread of one worker. It takes its jobs in the order in which the driver issued them
// and hands each to the executor; what the executor starts and does not wait for ends by its Done.

#ifndef RSERVE_SRC_RUNTIME_WORKER_H_
#define RSERVE_SRC_RUNTIME_WORKER_H_

#include <cstdint>
#include <memory>
#include <variant>
#include <vector>

#include "rserve/cc/executor.h"
#include "src/runtime/completion.h"
#include "src/runtime/job_queue.h"
#include "src/runtime/logger.h"
#include "src/runtime/thread.h"

namespace rserve::runtime {

struct WorkerJob {
  std::variant<EncodeJob, StageJob> work;
  std::shared_ptr<Completion> completion;
};

class Worker {
 public:
  // Empty `cores`: not pinned. A pin that fails is logged and otherwise ignored. Executor and
  // logger must outlive the worker.
  Worker(int32_t index, std::vector<int> cores, Executor& executor, const Logger& logger);
  // Finishes what is queued, then ends the thread.
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  void Push(WorkerJob job) { jobs_.Push(std::move(job)); }  // [any-thread]

 private:
  void Run();
  void Execute(WorkerJob job);

  const int32_t index_;
  const std::vector<int> cores_;
  Executor& executor_;
  const Logger& logger_;
  JobQueue<WorkerJob> jobs_;
  Thread thread_;  // last: it uses all of the above
};

}  // namespace rserve::runtime

#endif  // RSERVE_SRC_RUNTIME_WORKER_H_
