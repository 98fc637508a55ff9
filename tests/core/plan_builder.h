// Short ways to write plans in tests: one byte of embedding and of pixels a row.

#ifndef RSERVE_TESTS_CORE_PLAN_BUILDER_H_
#define RSERVE_TESTS_CORE_PLAN_BUILDER_H_

#include <initializer_list>

#include "rserve/cc/request_plan.h"

namespace rserve::test {

class PlanBuilder {
 public:
  explicit PlanBuilder(RequestId id) { plan_.id = id; }

  PlanBuilder& Text(int64_t tokens) {
    plan_.prompt_tokens += tokens;
    return *this;
  }
  // An item with one unit for each number of rows, read once and as a whole.
  PlanBuilder& Item(std::initializer_list<int64_t> unit_tokens, bool atomic = false) {
    int64_t rows = 0;
    for (const int64_t tokens : unit_tokens) {
      UnitPlan unit;
      unit.item = plan_.num_items;
      unit.tokens = unit.embedding_bytes = unit.pixel_bytes = tokens;
      plan_.units.push_back(unit);
      rows += tokens;
    }
    plan_.num_items += 1;
    return Span(plan_.num_items - 1, 0, rows, atomic);
  }
  PlanBuilder& Image(int64_t tokens) { return Item({tokens}); }
  // The next tokens read rows of an item that is there already.
  PlanBuilder& Span(int32_t item, int64_t row_begin, int64_t tokens, bool atomic = false) {
    SpanPlan span;
    span.token_begin = plan_.prompt_tokens;
    span.tokens = tokens;
    span.item = item;
    span.row_begin = row_begin;
    span.atomic = atomic;
    plan_.spans.push_back(span);
    plan_.prompt_tokens += tokens;
    return *this;
  }
  RequestPlan Build() const { return plan_; }

 private:
  RequestPlan plan_;
};

}  // namespace rserve::test

#endif  // RSERVE_TESTS_CORE_PLAN_BUILDER_H_
