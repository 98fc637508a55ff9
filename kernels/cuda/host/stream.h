// The stream of an emulated launch: how its kernels are scheduled, when they run, and what went
// wrong.

#ifndef RSERVE_KERNELS_CUDA_HOST_STREAM_H_
#define RSERVE_KERNELS_CUDA_HOST_STREAM_H_

#include <functional>
#include <string>
#include <utility>

#include "kernels/cuda/host/block.h"
#include "kernels/cuda/types.h"

namespace rserve::kernels::cuda::host {

// Runs what it is given at once; a queue derives from it and runs it later. Used by one thread at a
// time.
class Stream {
 public:
  Stream() = default;
  virtual ~Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  // Kernels and products, which a GPU takes from a thread that has bound the stream's device;
  virtual void Enqueue(std::function<void()> work) { work(); }
  // and what it takes from any thread.
  virtual void EnqueueTransfer(std::function<void()> work) { work(); }

  // Runs a grid now, as part of the work that was enqueued. The first error stays.
  void RunGrid(const Grid& grid, int threads, int shared_bytes, const std::function<void()>& body);

  Schedule& schedule() { return schedule_; }
  BlockRunner& runner() { return runner_; }
  const std::string& error() const { return error_; }
  void SetError(std::string error) {
    if (error_.empty()) error_ = std::move(error);
  }
  StreamRef ref() { return {this}; }

 private:
  Schedule schedule_;
  BlockRunner runner_;
  std::string error_;
};

// Queues a grid on the stream; without a stream, runs it and reports its failure.
Result LaunchOn(StreamRef stream, const Grid& grid, int threads, int shared_bytes,
                std::function<void()> body);

}  // namespace rserve::kernels::cuda::host

#endif  // RSERVE_KERNELS_CUDA_HOST_STREAM_H_
