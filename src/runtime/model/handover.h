// The hidden states between two stages of a micro-batch.

#ifndef RSERVE_SRC_RUNTIME_MODEL_HANDOVER_H_
#define RSERVE_SRC_RUNTIME_MODEL_HANDOVER_H_

#include <cstdint>
#include <mutex>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "src/runtime/model/buffer_pool.h"

namespace rserve::runtime {

// Thread-safe: stages of different micro-batches pass their buffers at the same time.
class Handover {
 public:
  // At most `max_tokens` tokens a micro-batch and `max_buffers` buffers at once stay pooled.
  Handover(int64_t hidden_size, int64_t max_tokens, int64_t max_buffers);

  // A buffer for the output of one stage: at least [tokens][hidden_size].
  absl::StatusOr<PooledBuffer> NewBuffer(int64_t tokens);
  void Put(uint64_t micro_batch, PooledBuffer buffer) ABSL_LOCKS_EXCLUDED(mutex_);
  // INTERNAL when the stage before has left none.
  absl::StatusOr<PooledBuffer> Take(uint64_t micro_batch) ABSL_LOCKS_EXCLUDED(mutex_);
  void Drop(uint64_t micro_batch) ABSL_LOCKS_EXCLUDED(mutex_);  // no-op when there is none

 private:
  const int64_t hidden_size_;
  BufferPool pool_;
  std::mutex mutex_;
  absl::flat_hash_map<uint64_t, PooledBuffer> buffers_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace rserve::runtime

#endif  // RSERVE_SRC_RUNTIME_MODEL_HANDOVER_H_
