// A worker's own cores: a fixed set of threads that split one job at a time.

#ifndef RSERVE_SRC_BACKEND_CPU_THREAD_POOL_H_
#define RSERVE_SRC_BACKEND_CPU_THREAD_POOL_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"

namespace rserve::cpu {

// One caller at a time. Splitting never changes a result: jobs partition outputs, never sums.
class ThreadPool {
 public:
  // `threads` >= 1, the caller's thread counted in (so 1 starts none). `cores`: the cores to pin
  // to, thread i to cores[i % size]; empty: not pinned. The caller's own thread is never pinned
  // here (its owner does that).
  ThreadPool(int threads, std::vector<int> cores);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const;
  // Calls fn(task) for every task in [0, tasks), spread over the threads; returns when all are
  // done. fn must not throw or call ParallelFor.
  void ParallelFor(int64_t tasks, absl::FunctionRef<void(int64_t)> fn);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rserve::cpu

#endif  // RSERVE_SRC_BACKEND_CPU_THREAD_POOL_H_
