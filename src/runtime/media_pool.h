// MediaPool: the threads on which units are prepared (decoded, resized, cut into patches).

#ifndef RSERVE_SRC_RUNTIME_MEDIA_POOL_H_
#define RSERVE_SRC_RUNTIME_MEDIA_POOL_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "rserve/cc/executor.h"
#include "src/runtime/completion.h"
#include "src/runtime/job_queue.h"
#include "src/runtime/logger.h"
#include "src/runtime/thread.h"

namespace rserve::runtime {

struct PrepareJob {
  UnitRef unit;
  std::shared_ptr<Completion> completion;
};

class MediaPool {
 public:
  // Executor and logger must outlive the pool.
  MediaPool(Executor& executor, const Logger& logger);
  // Finishes what is queued, then ends the threads.
  ~MediaPool();
  MediaPool(const MediaPool&) = delete;
  MediaPool& operator=(const MediaPool&) = delete;

  // One thread a lane, once. Throws std::system_error if the process may have no more threads; the
  // pool can then only be destroyed.
  void Start(int32_t lanes);
  void Push(PrepareJob job) { jobs_.Push(std::move(job)); }  // [any-thread]

 private:
  void Run(int32_t lane);

  Executor& executor_;
  const Logger& logger_;
  JobQueue<PrepareJob> jobs_;
  std::vector<Thread> threads_;  // last: they use all of the above
};

}  // namespace rserve::runtime

#endif  // RSERVE_SRC_RUNTIME_MEDIA_POOL_H_
