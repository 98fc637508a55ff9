// Float buffers of a few recurring sizes, kept for reuse so that a step does not go to the system
// for memory.

#ifndef RSERVE_SRC_RUNTIME_MODEL_BUFFER_POOL_H_
#define RSERVE_SRC_RUNTIME_MODEL_BUFFER_POOL_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"

namespace rserve::runtime {

inline constexpr size_t kBufferAlignment = 64;  // a cache line, an AVX-512 register

struct AlignedDelete {
  void operator()(float* data) const {
    ::operator delete (data, std::align_val_t{kBufferAlignment});
  }
};

class BufferPool;

// A buffer on loan; goes back to its pool with the object. Its contents are not initialised.
class PooledBuffer {
 public:
  PooledBuffer() = default;
  PooledBuffer(PooledBuffer&& other) noexcept { *this = std::move(other); }
  PooledBuffer& operator=(PooledBuffer&& other) noexcept;
  ~PooledBuffer() { Reset(); }

  void Reset();
  float* data() const { return data_.get(); }
  int64_t size() const { return size_; }  // floats
  explicit operator bool() const { return data_ != nullptr; }

 private:
  friend class BufferPool;
  BufferPool* pool_ = nullptr;
  std::unique_ptr<float, AlignedDelete> data_;
  int64_t size_ = 0;
};

// Thread-safe. A buffer is reused for requests of exactly its size: whoever accounts for the floats
// that are on loan thereby accounts for the memory. Idle buffers are given back to the system,
// those idle for longest first, before idle and loaned ones together would pass `capacity_bytes`; a
// loan itself is never refused for it. The pool outlives its buffers.
class BufferPool {
 public:
  // `name` is the option that bounds what is on loan; errors name it.
  BufferPool(std::string name, int64_t capacity_bytes);
  ~BufferPool();
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  // At least one float. RESOURCE_EXHAUSTED when the system has no memory.
  absl::StatusOr<PooledBuffer> Take(int64_t floats) ABSL_LOCKS_EXCLUDED(mutex_);

  int64_t loaned_bytes() const ABSL_LOCKS_EXCLUDED(mutex_);
  int64_t peak_bytes() const ABSL_LOCKS_EXCLUDED(mutex_);   // on loan and idle together
  int64_t allocations() const ABSL_LOCKS_EXCLUDED(mutex_);  // how often the system was asked

 private:
  friend class PooledBuffer;
  using Memory = std::unique_ptr<float, AlignedDelete>;
  struct Idle {
    uint64_t since = 0;
    Memory data;
  };

  void Return(Memory data, int64_t floats) ABSL_LOCKS_EXCLUDED(mutex_);
  // Moves idle buffers to `gone` until at most `limit_bytes` of them are left or none is.
  void Trim(int64_t limit_bytes, std::vector<Memory>* gone) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string name_;
  const int64_t capacity_bytes_;
  mutable std::mutex mutex_;
  std::multimap<int64_t, Idle> idle_ ABSL_GUARDED_BY(mutex_);  // by floats
  uint64_t clock_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t idle_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t loaned_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t peak_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t allocations_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace rserve::runtime

#endif  // RSERVE_SRC_RUNTIME_MODEL_BUFFER_POOL_H_
