// ValidatePlan: every malformed plan is refused, and the message names index and value.

#include "rserve/cc/request_plan.h"

#include <functional>
#include <string>

#include "tests/core/plan_builder.h"
#include "tests/core/rng.h"
#include "tests/support/catch.h"

namespace rserve::test {
namespace {

RequestPlan Good() { return PlanBuilder(1).Text(2).Item({3, 4}).Text(1).Image(5).Build(); }

TEST_CASE("well-formed plans are accepted") {
  CHECK(ValidatePlan(Good()).ok());
  CHECK(ValidatePlan(PlanBuilder(1).Text(1).Build()).ok());
  CHECK(ValidatePlan(PlanBuilder(UINT64_MAX).Image(1).Build()).ok());
  CHECK(ValidatePlan(PlanBuilder(1).Item({2, 2}).Text(1).Span(0, 1, 2).Build()).ok());
}

TEST_CASE("malformed plans are refused with INVALID_ARGUMENT that names what is wrong") {
  struct Case {
    const char* what;
    std::function<void(RequestPlan*)> damage;
    const char* named;
  };
  const Case cases[] = {
      {"id 0", [](RequestPlan* p) { p->id = 0; }, "id"},
      {"empty prompt", [](RequestPlan* p) { p->prompt_tokens = 0; }, "prompt_tokens is 0"},
      {"negative prompt", [](RequestPlan* p) { p->prompt_tokens = -7; }, "-7"},
      {"endless prompt", [](RequestPlan* p) { p->prompt_tokens = INT64_MAX; }, "prompt_tokens"},
      {"no new tokens", [](RequestPlan* p) { p->max_new_tokens = 0; }, "max_new_tokens is 0"},
      {"endless new", [](RequestPlan* p) { p->max_new_tokens = INT64_MAX; }, "max_new_tokens"},
      {"negative items", [](RequestPlan* p) { p->num_items = -1; }, "-1"},
      {"item without unit", [](RequestPlan* p) { p->num_items = 3; }, "item 2"},
      {"items, no units", [](RequestPlan* p) { p->num_items = INT32_MAX; }, "num_items"},
      {"unit of no item", [](RequestPlan* p) { p->units[2].item = 2; }, "units[2]"},
      {"unit of item -1", [](RequestPlan* p) { p->units[0].item = -1; }, "units[0]"},
      {"items descending", [](RequestPlan* p) { p->units[0].item = 1; }, "units[0]"},
      {"unit of 0 tokens", [](RequestPlan* p) { p->units[1].tokens = 0; }, "units[1].tokens"},
      {"endless unit", [](RequestPlan* p) { p->units[1].tokens = INT64_MAX; }, "units[1].tokens"},
      {"endless bytes", [](RequestPlan* p) { p->units[2].embedding_bytes = INT64_MAX; },
       "units[2].embedding_bytes"},
      {"negative bytes", [](RequestPlan* p) { p->units[2].embedding_bytes = -4; }, "-4"},
      {"endless pixels", [](RequestPlan* p) { p->units[0].pixel_bytes = INT64_MAX; },
       "units[0].pixel_bytes"},
      {"span of no item", [](RequestPlan* p) { p->spans[1].item = 2; }, "spans[1]"},
      {"span of item -1", [](RequestPlan* p) { p->spans[0].item = -1; }, "spans[0]"},
      {"empty span", [](RequestPlan* p) { p->spans[0].tokens = 0; }, "spans[0]"},
      {"span before the prompt", [](RequestPlan* p) { p->spans[0].token_begin = -1; }, "spans[0]"},
      {"span behind the prompt", [](RequestPlan* p) { p->spans[1].token_begin += 1; }, "spans[1]"},
      {"span at the end of numbers", [](RequestPlan* p) { p->spans[1].token_begin = INT64_MAX; },
       "spans[1]"},
      {"endless span", [](RequestPlan* p) { p->spans[1].tokens = INT64_MAX; }, "spans[1]"},
      {"spans overlap", [](RequestPlan* p) { p->spans[1].token_begin = 8; }, "spans[1]"},
      {"rows before the item", [](RequestPlan* p) { p->spans[0].row_begin = -1; }, "spans[0]"},
      {"rows behind the item", [](RequestPlan* p) { p->spans[0].row_begin = 1; }, "spans[0]"},
      {"row at the end of numbers", [](RequestPlan* p) { p->spans[0].row_begin = INT64_MAX; },
       "spans[0]"},
      {"unit that nobody reads", [](RequestPlan* p) { p->spans[0].tokens = 3; }, "units[1]"},
      {"negative stage", [](RequestPlan* p) { p->last_reader_stage = -1; }, "last_reader_stage"},
      {"negative input", [](RequestPlan* p) { p->input_bytes = -1; }, "input_bytes"},
  };
  for (const Case& test : cases) {
    INFO(test.what);
    RequestPlan plan = Good();
    test.damage(&plan);
    const absl::Status status = ValidatePlan(plan);
    REQUIRE(status.code() == absl::StatusCode::kInvalidArgument);
    INFO(status.ToString());
    CHECK(std::string(status.message()).find(test.named) != std::string::npos);
  }
}

// Sizes at the edges of int64 in every field: a refusal or an acceptance, never an overflow (run
// under UBSan).
TEST_CASE("extreme numbers in any fields never overflow") {
  for (uint64_t seed = 1; seed <= 20000; ++seed) {
    CAPTURE(seed);
    Rng rng(seed);
    const auto extreme = [&rng](auto* field) {
      using T = std::remove_reference_t<decltype(*field)>;
      if (!rng.Percent(20)) return;
      *field = static_cast<T>(
          rng.Pick<int64_t>({0, 1, -1, INT64_MAX, INT64_MIN, INT64_MAX - 1, INT32_MAX, INT32_MIN,
                             int64_t{1} << 60, int64_t{1} << 61}));
    };
    RequestPlan plan = Good();
    extreme(&plan.prompt_tokens);
    extreme(&plan.max_new_tokens);
    extreme(&plan.num_items);
    extreme(&plan.last_reader_stage);
    extreme(&plan.input_bytes);
    for (UnitPlan& unit : plan.units) {
      extreme(&unit.item);
      extreme(&unit.tokens);
      extreme(&unit.embedding_bytes);
      extreme(&unit.pixel_bytes);
    }
    for (SpanPlan& span : plan.spans) {
      extreme(&span.token_begin);
      extreme(&span.tokens);
      extreme(&span.item);
      extreme(&span.row_begin);
    }
    const absl::Status status = ValidatePlan(plan);
    REQUIRE((status.ok() || status.code() == absl::StatusCode::kInvalidArgument));
  }
}

}  // namespace
}  // namespace rserve::test
