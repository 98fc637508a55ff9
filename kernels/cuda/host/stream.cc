#include "kernels/cuda/host/stream.h"

namespace rserve::kernels::cuda::host {

void Stream::RunGrid(const Grid& grid, int threads, int shared_bytes,
                     const std::function<void()>& body) {
  if (!error_.empty()) return;
  SetError(runner_.Run(grid, threads, shared_bytes, schedule_, body));
}

Result LaunchOn(StreamRef stream, const Grid& grid, int threads, int shared_bytes,
                std::function<void()> body) {
  if (stream.handle == nullptr) {
    BlockRunner runner;
    if (runner.Run(grid, threads, shared_bytes, {}, body).empty()) return {};
    return {Result::Code::kFailed, 0, "emulated kernel"};
  }
  auto* queue = static_cast<Stream*>(stream.handle);
  queue->Enqueue([queue, grid, threads, shared_bytes, body = std::move(body)] {
    queue->RunGrid(grid, threads, shared_bytes, body);
  });
  return {};
}

}  // namespace rserve::kernels::cuda::host
