// Where a request's units lie in its prompt, and how much of them must be held at once.

#ifndef RSERVE_SRC_CORE_UNIT_LAYOUT_H_
#define RSERVE_SRC_CORE_UNIT_LAYOUT_H_

#include <cstdint>
#include <vector>

#include "rserve/cc/request_plan.h"

namespace rserve {

// A span cut at unit borders. Segments are in token order and do not overlap.
struct Segment {
  int64_t token_begin = 0;
  int64_t tokens = 0;
  int32_t unit = 0;
  int64_t row_begin = 0;  // first row within the unit
  bool atomic = false;    // cut from an atomic span
  // That span's tokens if it is atomic, else the segment's own.
  int64_t group_begin = 0;
  int64_t group_end = 0;
};

// Amounts of the three unit budgets.
struct Amounts {
  int64_t embedding_bytes = 0;
  int64_t pixel_bytes = 0;
  int64_t units = 0;
};

struct UnitLayout {
  std::vector<Segment> segments;
  std::vector<int32_t> prompt_order;  // units to encode, by the token from which on they are needed
  std::vector<int64_t> first_token;   // by unit: nothing from this token on runs without it
  std::vector<int64_t> last_token;    // by unit: one past the last token that reads it
  // By position k in prompt_order: the largest amounts that must be held at once to get past any of
  // the units k, k+1, ...: the unit itself and the earlier ones that are still read behind it.
  std::vector<Amounts> floor;
  Amounts total;               // of all units
  int64_t largest_atomic = 0;  // tokens of the longest atomic span
  bool has_atomic = false;

  // The last place at or before `token` where a chunk may end: not inside an atomic span.
  int64_t WholeUpTo(int64_t token) const;
};

// The plan must be valid (ValidatePlan). Units that no token from `skipped` on reads are left out
// of prompt_order, floor and total: reused KV covers them.
UnitLayout BuildUnitLayout(const RequestPlan& plan, int64_t skipped = 0);

}  // namespace rserve

#endif  // RSERVE_SRC_CORE_UNIT_LAYOUT_H_
