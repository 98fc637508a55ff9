#include "src/backend/plan/row_store.h"

#include <algorithm>
#include <iterator>

namespace rserve::backend {

StoredRows& StoredRows::operator=(StoredRows&& other) noexcept {
  if (this == &other) return *this;
  Reset();
  store_ = std::exchange(other.store_, nullptr);
  rows_ = std::exchange(other.rows_, 0);
  runs_ = std::move(other.runs_);
  other.runs_.clear();
  return *this;
}

void StoredRows::Reset() {
  if (store_ != nullptr) store_->Return(runs_);
  store_ = nullptr;
  rows_ = 0;
  runs_.clear();
}

void StoredRows::ForEach(int64_t first, int64_t rows,
                         absl::FunctionRef<void(int64_t row, const RowRun& run)> visit) const {
  int64_t row = 0;  // the run's first
  for (const RowRun& run : runs_) {
    const int64_t begin = std::max(first, row), end = std::min(first + rows, row + run.rows);
    if (begin < end) visit(begin, {run.begin + begin - row, end - begin});
    row += run.rows;
  }
}

RowStore::RowStore(int64_t capacity) : capacity_(capacity) {
  if (capacity > 0) free_[0] = capacity;
}

StoredRows RowStore::Take(int64_t rows) {
  StoredRows taken;
  std::lock_guard<std::mutex> lock(mutex_);
  if (rows < 1 || rows > capacity_ - taken_) return taken;
  // One gap that holds them all, the first; else gaps in their order.
  auto gap = std::find_if(free_.begin(), free_.end(),
                          [&](const auto& free) { return free.second >= rows; });
  if (gap == free_.end()) gap = free_.begin();
  for (int64_t left = rows; left > 0;) {
    const int64_t count = std::min(left, gap->second);
    taken.runs_.push_back({gap->first, count});
    left -= count;
    const int64_t rest_begin = gap->first + count, rest = gap->second - count;
    gap = free_.erase(gap);
    if (rest > 0) free_.emplace_hint(gap, rest_begin, rest);
  }
  taken.store_ = this;
  taken.rows_ = rows;
  taken_ += rows;
  peak_ = std::max(peak_, taken_);
  return taken;
}

void RowStore::Return(const std::vector<RowRun>& runs) {
  std::lock_guard<std::mutex> lock(mutex_);
  for (const RowRun& run : runs) {
    taken_ -= run.rows;
    auto next = free_.lower_bound(run.begin);
    int64_t begin = run.begin, end = run.begin + run.rows;
    if (next != free_.end() && next->first == end) {
      end += next->second;
      next = free_.erase(next);
    }
    if (next != free_.begin()) {
      const auto before = std::prev(next);
      if (before->first + before->second == begin) {
        before->second = end - before->first;
        continue;
      }
    }
    free_.emplace_hint(next, begin, end - begin);
  }
}

int64_t RowStore::taken() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return taken_;
}

int64_t RowStore::peak() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return peak_;
}

}  // namespace rserve::backend
