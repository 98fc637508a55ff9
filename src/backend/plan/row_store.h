// RowStore: which rows of a backend's own memory are taken, for embeddings that stay there between
// the encoder that makes them and the first stage that reads them. It holds no memory itself.
//
// A request for rows gets any rows that are free, in as few runs as there are gaps to fill: as long
// as enough rows are free it is granted. So whoever keeps the sum of all requests below `capacity`,
// as the core does with embedding_bytes, is never refused.

#ifndef RSERVE_SRC_BACKEND_PLAN_ROW_STORE_H_
#define RSERVE_SRC_BACKEND_PLAN_ROW_STORE_H_

#include <cstdint>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"

namespace rserve::backend {

// Rows [begin, begin + rows) of a store.
struct RowRun {
  int64_t begin = 0;
  int64_t rows = 0;
  bool operator==(const RowRun&) const = default;
};

class RowStore;

// Rows on loan, numbered from 0 in the order of their runs; go back to their store with the object.
class StoredRows {
 public:
  StoredRows() = default;
  StoredRows(StoredRows&& other) noexcept { *this = std::move(other); }
  StoredRows& operator=(StoredRows&& other) noexcept;
  ~StoredRows() { Reset(); }

  void Reset();
  int64_t rows() const { return rows_; }
  const std::vector<RowRun>& runs() const { return runs_; }
  explicit operator bool() const { return store_ != nullptr; }

  // Calls visit(row, run) for the parts of runs that hold rows [first, first + rows), in their
  // order; `row`: the number of the part's first. The range lies inside rows().
  void ForEach(int64_t first, int64_t rows,
               absl::FunctionRef<void(int64_t row, const RowRun& run)> visit) const;

 private:
  friend class RowStore;
  RowStore* store_ = nullptr;
  int64_t rows_ = 0;
  std::vector<RowRun> runs_;
};

// Thread-safe; outlives what it lends.
class RowStore {
 public:
  explicit RowStore(int64_t capacity);
  RowStore(const RowStore&) = delete;
  RowStore& operator=(const RowStore&) = delete;

  // At least one row. Empty when fewer are free.
  StoredRows Take(int64_t rows) ABSL_LOCKS_EXCLUDED(mutex_);

  int64_t capacity() const { return capacity_; }
  int64_t taken() const ABSL_LOCKS_EXCLUDED(mutex_);
  int64_t peak() const ABSL_LOCKS_EXCLUDED(mutex_);  // of taken

 private:
  friend class StoredRows;
  void Return(const std::vector<RowRun>& runs) ABSL_LOCKS_EXCLUDED(mutex_);

  const int64_t capacity_;
  mutable std::mutex mutex_;
  // Free rows by the first of them; neighbours are one entry.
  std::map<int64_t, int64_t> free_ ABSL_GUARDED_BY(mutex_);
  int64_t taken_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t peak_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace rserve::backend

#endif  // RSERVE_SRC_BACKEND_PLAN_ROW_STORE_H_
