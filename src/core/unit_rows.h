// Which unit of an item holds which of the item's rows.

#ifndef RSERVE_SRC_CORE_UNIT_ROWS_H_
#define RSERVE_SRC_CORE_UNIT_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "rserve/cc/request_plan.h"

namespace rserve {

class UnitRows {
 public:
  // Units must be grouped by item, items ascending; `plan` must outlive this.
  explicit UnitRows(const RequestPlan& plan);

  // First row of the unit within its item.
  int64_t RowBegin(size_t unit) const { return row_begin_[unit]; }
  // The unit that holds row `row` of `item`; the row must exist. O(log units of the item).
  size_t UnitOf(int32_t item, int64_t row) const;

 private:
  std::vector<int64_t> row_begin_;  // by unit
  std::vector<size_t> first_unit_;  // by item, and one past the last
};

}  // namespace rserve

#endif  // RSERVE_SRC_CORE_UNIT_ROWS_H_
