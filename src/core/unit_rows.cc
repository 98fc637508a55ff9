#include "src/core/unit_rows.h"

#include <algorithm>

namespace rserve {

UnitRows::UnitRows(const RequestPlan& plan)
    : row_begin_(plan.units.size(), 0),
      first_unit_(static_cast<size_t>(plan.num_items) + 1, plan.units.size()) {
  for (size_t u = plan.units.size(); u-- > 0;) first_unit_[plan.units[u].item] = u;
  for (size_t u = 1; u < plan.units.size(); ++u) {
    if (plan.units[u].item != plan.units[u - 1].item) continue;
    row_begin_[u] = row_begin_[u - 1] + plan.units[u - 1].tokens;
  }
}

size_t UnitRows::UnitOf(int32_t item, int64_t row) const {
  const auto begin = row_begin_.begin() + static_cast<ptrdiff_t>(first_unit_[item]);
  const auto end = row_begin_.begin() + static_cast<ptrdiff_t>(first_unit_[item + 1]);
  return static_cast<size_t>(std::upper_bound(begin, end, row) - row_begin_.begin()) - 1;
}

}  // namespace rserve
