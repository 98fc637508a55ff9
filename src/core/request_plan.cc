#include "rserve/cc/request_plan.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "src/core/unit_rows.h"

namespace rserve {
namespace {

// No real size comes near this; sums of a request's sizes below it cannot overflow.
constexpr int64_t kMaxSum = int64_t{1} << 60;

absl::Status Invalid(const std::string& what) { return absl::InvalidArgumentError(what); }

// Checks one size and adds it to `sum`.
absl::Status Count(const char* name, size_t index, int64_t value, int64_t least, int64_t* sum) {
  if (value < least || value > kMaxSum - *sum) {
    return Invalid(absl::StrCat("units[", index, "].", name, " is ", value,
                                "; it must be at least ", least, " and the request's sum at most ",
                                kMaxSum));
  }
  *sum += value;
  return absl::OkStatus();
}

absl::Status ValidateUnits(const RequestPlan& plan, std::vector<int64_t>* item_rows) {
  int64_t tokens = 0, embedding = 0, pixels = 0;
  int32_t last_item = -1;
  for (size_t u = 0; u < plan.units.size(); ++u) {
    const UnitPlan& unit = plan.units[u];
    if (unit.item < 0 || unit.item >= plan.num_items) {
      return Invalid(absl::StrCat("units[", u, "].item is ", unit.item, "; the request has ",
                                  plan.num_items, " items"));
    }
    if (unit.item != last_item && unit.item != last_item + 1) {
      return Invalid(absl::StrCat("units[", u, "].item is ", unit.item, " after item ", last_item,
                                  "; units are grouped by item, items ascending, none left out"));
    }
    last_item = unit.item;
    if (absl::Status s = Count("tokens", u, unit.tokens, 1, &tokens); !s.ok()) return s;
    if (absl::Status s = Count("embedding_bytes", u, unit.embedding_bytes, 0, &embedding); !s.ok())
      return s;
    if (absl::Status s = Count("pixel_bytes", u, unit.pixel_bytes, 0, &pixels); !s.ok()) return s;
    (*item_rows)[unit.item] += unit.tokens;
  }
  if (last_item + 1 != plan.num_items) {
    return Invalid(absl::StrCat("item ", last_item + 1, " of ", plan.num_items, " has no unit"));
  }
  return absl::OkStatus();
}

absl::Status ValidateSpans(const RequestPlan& plan, const std::vector<int64_t>& item_rows) {
  int64_t end = 0;
  for (size_t i = 0; i < plan.spans.size(); ++i) {
    const SpanPlan& span = plan.spans[i];
    if (span.item < 0 || span.item >= plan.num_items) {
      return Invalid(absl::StrCat("spans[", i, "].item is ", span.item, "; the request has ",
                                  plan.num_items, " items"));
    }
    if (span.tokens < 1 || span.token_begin < end ||
        span.tokens > plan.prompt_tokens - span.token_begin) {
      return Invalid(absl::StrCat("spans[", i, "] takes ", span.tokens, " tokens from ",
                                  span.token_begin, "; it must lie behind token ", end,
                                  " and within the prompt's ", plan.prompt_tokens));
    }
    if (span.row_begin < 0 || span.row_begin > item_rows[span.item] - span.tokens) {
      return Invalid(absl::StrCat("spans[", i, "] takes ", span.tokens, " rows from ",
                                  span.row_begin, "; item ", span.item, " has ",
                                  item_rows[span.item]));
    }
    end = span.token_begin + span.tokens;
  }
  return absl::OkStatus();
}

// Every unit must be read by some span: nothing else would ever release it.
absl::Status ValidateUse(const RequestPlan& plan) {
  if (plan.units.empty()) return absl::OkStatus();  // text costs no memory here
  const UnitRows rows(plan);
  // Spans that begin to read at a unit, minus those that have ended before it.
  std::vector<int64_t> change(plan.units.size() + 1, 0);
  for (const SpanPlan& span : plan.spans) {
    ++change[rows.UnitOf(span.item, span.row_begin)];
    --change[rows.UnitOf(span.item, span.row_begin + span.tokens - 1) + 1];
  }
  int64_t readers = 0;
  for (size_t u = 0; u < plan.units.size(); ++u) {
    readers += change[u];
    if (readers == 0) return Invalid(absl::StrCat("units[", u, "] is read by no span"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ValidatePlan(const RequestPlan& plan) {
  if (plan.id == 0) return Invalid("id is 0; request ids start at 1");
  if (plan.prompt_tokens < 1 || plan.prompt_tokens > kMaxSum) {
    return Invalid(
        absl::StrCat("prompt_tokens is ", plan.prompt_tokens, "; it must be 1 to ", kMaxSum));
  }
  if (plan.max_new_tokens < 1 || plan.max_new_tokens > kMaxSum) {
    return Invalid(
        absl::StrCat("max_new_tokens is ", plan.max_new_tokens, "; it must be 1 to ", kMaxSum));
  }
  if (plan.num_items < 0) return Invalid(absl::StrCat("num_items is ", plan.num_items));
  if (static_cast<size_t>(plan.num_items) > plan.units.size()) {
    return Invalid(absl::StrCat("num_items is ", plan.num_items, " but there are only ",
                                plan.units.size(), " units"));
  }
  if (plan.input_bytes < 0 || plan.input_bytes > kMaxSum) {
    return Invalid(absl::StrCat("input_bytes is ", plan.input_bytes));
  }
  if (plan.last_reader_stage < 0) {
    return Invalid(absl::StrCat("last_reader_stage is ", plan.last_reader_stage));
  }
  std::vector<int64_t> item_rows(static_cast<size_t>(plan.num_items), 0);
  if (absl::Status s = ValidateUnits(plan, &item_rows); !s.ok()) return s;
  if (absl::Status s = ValidateSpans(plan, item_rows); !s.ok()) return s;
  return ValidateUse(plan);
}

}  // namespace rserve
