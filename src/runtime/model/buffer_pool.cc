#include "src/runtime/model/buffer_pool.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace rserve::runtime {

namespace {
constexpr int64_t kFloatBytes = sizeof(float);
}  // namespace

PooledBuffer& PooledBuffer::operator=(PooledBuffer&& other) noexcept {
  if (this == &other) return *this;
  Reset();
  pool_ = std::exchange(other.pool_, nullptr);
  data_ = std::move(other.data_);
  size_ = std::exchange(other.size_, 0);
  return *this;
}

void PooledBuffer::Reset() {
  if (data_ != nullptr) pool_->Return(std::move(data_), size_);
  pool_ = nullptr;
  size_ = 0;
}

BufferPool::BufferPool(std::string name, int64_t capacity_bytes)
    : name_(std::move(name)), capacity_bytes_(capacity_bytes) {}

BufferPool::~BufferPool() = default;

absl::StatusOr<PooledBuffer> BufferPool::Take(int64_t floats) {
  if (floats < 1 || floats > std::numeric_limits<int64_t>::max() / kFloatBytes) {
    return absl::InternalError(absl::StrCat("a buffer of ", floats, " floats (", name_, ")"));
  }
  const int64_t bytes = floats * kFloatBytes;
  PooledBuffer buffer;
  buffer.pool_ = this;
  buffer.size_ = floats;
  std::vector<Memory> gone;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    loaned_bytes_ += bytes;
    if (auto it = idle_.find(floats); it != idle_.end()) {
      buffer.data_ = std::move(it->second.data);
      idle_.erase(it);
      idle_bytes_ -= bytes;
      return buffer;
    }
    Trim(std::max<int64_t>(0, capacity_bytes_ - loaned_bytes_), &gone);
    peak_bytes_ = std::max(peak_bytes_, loaned_bytes_ + idle_bytes_);
    ++allocations_;
  }
  gone.clear();
  buffer.data_.reset(static_cast<float*>(::operator new (
      static_cast<size_t>(bytes), std::align_val_t{kBufferAlignment}, std::nothrow)));
  if (buffer.data_ == nullptr) {
    std::lock_guard<std::mutex> lock(mutex_);
    loaned_bytes_ -= bytes;
    return absl::ResourceExhaustedError(
        absl::StrCat("the system has no memory for a buffer of ", bytes, " bytes (", name_, ")"));
  }
  return buffer;
}

void BufferPool::Return(Memory data, int64_t floats) {
  const int64_t bytes = floats * kFloatBytes;
  std::vector<Memory> gone;
  std::lock_guard<std::mutex> lock(mutex_);
  loaned_bytes_ -= bytes;
  idle_bytes_ += bytes;
  idle_.emplace(floats, Idle{clock_++, std::move(data)});
  Trim(std::max<int64_t>(0, capacity_bytes_ - loaned_bytes_), &gone);
}

void BufferPool::Trim(int64_t limit_bytes, std::vector<Memory>* gone) {
  while (idle_bytes_ > limit_bytes) {
    auto oldest = std::min_element(idle_.begin(), idle_.end(), [](const auto& a, const auto& b) {
      return a.second.since < b.second.since;
    });
    idle_bytes_ -= oldest->first * kFloatBytes;
    gone->push_back(std::move(oldest->second.data));
    idle_.erase(oldest);
  }
}

int64_t BufferPool::loaned_bytes() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return loaned_bytes_;
}

int64_t BufferPool::peak_bytes() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return peak_bytes_;
}

int64_t BufferPool::allocations() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return allocations_;
}

}  // namespace rserve::runtime
