#include "src/core/unit_layout.h"

#include <algorithm>
#include <cstddef>

#include "src/core/unit_rows.h"

namespace rserve {
namespace {

void CutSpan(const RequestPlan& plan, const UnitRows& rows, const SpanPlan& span,
             std::vector<Segment>* segments) {
  int64_t done = 0;
  size_t u = rows.UnitOf(span.item, span.row_begin);
  while (done < span.tokens) {
    Segment s;
    s.unit = static_cast<int32_t>(u);
    s.row_begin = span.row_begin + done - rows.RowBegin(u);
    s.token_begin = span.token_begin + done;
    s.tokens = std::min(span.tokens - done, plan.units[u].tokens - s.row_begin);
    s.atomic = span.atomic;
    s.group_begin = span.atomic ? span.token_begin : s.token_begin;
    s.group_end = span.atomic ? span.token_begin + span.tokens : s.token_begin + s.tokens;
    segments->push_back(s);
    done += s.tokens;
    ++u;
  }
}

// Fills UnitLayout::floor. O(units log units): the units still read behind a position are kept in a
// heap by their last token while the position moves right.
void FillFloors(const RequestPlan& plan, UnitLayout* layout) {
  const size_t n = layout->prompt_order.size();
  layout->floor.resize(n);
  auto later = [layout](int32_t a, int32_t b) {
    return layout->last_token[a] > layout->last_token[b];
  };
  std::vector<int32_t> held;
  Amounts now;
  for (size_t k = 0; k < n; ++k) {
    const int32_t unit = layout->prompt_order[k];
    while (!held.empty() && layout->last_token[held.front()] <= layout->first_token[unit]) {
      now.embedding_bytes -= plan.units[held.front()].embedding_bytes;
      now.units -= 1;
      std::pop_heap(held.begin(), held.end(), later);
      held.pop_back();
    }
    held.push_back(unit);
    std::push_heap(held.begin(), held.end(), later);
    now.embedding_bytes += plan.units[unit].embedding_bytes;
    now.units += 1;
    // Pixels go with the encode, whatever else is held.
    layout->floor[k] = {now.embedding_bytes, plan.units[unit].pixel_bytes, now.units};
  }
  for (size_t k = n; k-- > 1;) {
    Amounts& before = layout->floor[k - 1];
    const Amounts& after = layout->floor[k];
    before.embedding_bytes = std::max(before.embedding_bytes, after.embedding_bytes);
    before.pixel_bytes = std::max(before.pixel_bytes, after.pixel_bytes);
    before.units = std::max(before.units, after.units);
  }
}

}  // namespace

int64_t UnitLayout::WholeUpTo(int64_t token) const {
  if (!has_atomic) return token;
  auto after = std::partition_point(segments.begin(), segments.end(),
                                    [token](const Segment& s) { return s.token_begin < token; });
  if (after == segments.begin()) return token;
  const Segment& s = *(after - 1);
  return s.atomic && token < s.group_end ? s.group_begin : token;
}

UnitLayout BuildUnitLayout(const RequestPlan& plan, int64_t skipped) {
  UnitLayout layout;
  const size_t n = plan.units.size();
  const UnitRows rows(plan);
  for (const SpanPlan& span : plan.spans) {
    CutSpan(plan, rows, span, &layout.segments);
    if (span.atomic) {
      layout.has_atomic = true;
      layout.largest_atomic = std::max(layout.largest_atomic, span.tokens);
    }
  }
  layout.first_token.assign(n, plan.prompt_tokens);
  layout.last_token.assign(n, 0);
  for (const Segment& s : layout.segments) {
    layout.first_token[s.unit] = std::min(layout.first_token[s.unit], s.group_begin);
    layout.last_token[s.unit] = std::max(layout.last_token[s.unit], s.token_begin + s.tokens);
  }
  for (size_t u = 0; u < n; ++u) {
    if (layout.last_token[u] <= skipped) continue;
    layout.prompt_order.push_back(static_cast<int32_t>(u));
    layout.total.embedding_bytes += plan.units[u].embedding_bytes;
    layout.total.pixel_bytes += plan.units[u].pixel_bytes;
    layout.total.units += 1;
  }
  std::stable_sort(
      layout.prompt_order.begin(), layout.prompt_order.end(),
      [&layout](int32_t a, int32_t b) { return layout.first_token[a] < layout.first_token[b]; });
  FillFloors(plan, &layout);
  return layout;
}

}  // namespace rserve
