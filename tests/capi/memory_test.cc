// No memory on the caller's thread, at each allocation in turn, in every entry point that
// allocates: RESOURCE_EXHAUSTED, nothing kept, and the engine goes on serving.

#include "rserve/host.h"
#include "tests/capi/c_fixture.h"
#include "tests/runtime/failing_new.h"

namespace rserve::testing {
namespace {

using Call = std::function<rserve_status_t(rserve_error**)>;

// Makes the n-th allocation of `call` fail, n = 1, 2, ... until the call gets through without that.
// A call that fails must be one for want of memory and keep none; `undo` follows one that succeeds.
// `allocated`: LiveAllocations where the call starts threads and ends them again; an engine that
// runs clears up behind its last request whenever it comes to it.
int FailEach(const char* name, const Call& call, const std::function<void()>& undo,
             int64_t (*allocated)() = OwnAllocations) {
  CAPTURE(name);
  // Once before, so that what is made at first use and kept is there.
  REQUIRE(call(nullptr) == RSERVE_STATUS_OK);
  undo();
  int failures = 0;
  for (int64_t n = 1;; ++n) {
    CAPTURE(n);
    const int64_t before = allocated();
    rserve_error* err = nullptr;
    FailAllocation(n);
    const rserve_status_t status = call(&err);
    const bool reached = !AllocationToFail();
    FailNoAllocation();
    if (status == RSERVE_STATUS_OK) {
      undo();
      if (!reached) return failures;
      continue;  // it could do without
    }
    ++failures;
    REQUIRE(reached);
    CHECK(status == RSERVE_STATUS_RESOURCE_EXHAUSTED);
    REQUIRE(err != nullptr);
    CHECK(rserve_error_code(err) == status);
    rserve_error_destroy(err);
    CHECK(allocated() == before);
  }
}

TEST_CASE("Every call of an engine survives every allocation that fails") {
  const EnginePtr engine = MustCreate(TinyConfig());
  rserve_engine* const e = engine.get();
  const std::vector<uint8_t> picture = TestPng(56, 56, 1);
  const std::vector<rserve_part> parts = {TextPart("What is "), ImagePart(picture)};
  rserve_request request = RequestOf(parts);

  rserve_plan* plan = nullptr;
  CHECK(FailEach(
            "plan", [&](rserve_error** x) { return rserve_engine_plan(e, &request, &plan, x); },
            [&] { rserve_plan_destroy(plan); }) > 5);

  uint64_t id = 0;
  CHECK(FailEach(
            "submit", [&](rserve_error** x) { return rserve_engine_submit(e, &request, &id, x); },
            [&] {
              CHECK(WaitFor(e, 1).back().type == RSERVE_EVENT_FINISHED);
              CHECK(rserve_engine_acknowledge(e, id, nullptr) == RSERVE_STATUS_OK);
            }) > 10);

  REQUIRE(rserve_engine_submit(e, &request, &id, nullptr) == RSERVE_STATUS_OK);
  WaitFor(e, 1);
  rserve_detail* detail = nullptr;
  FailEach(
      "detail", [&](rserve_error** x) { return rserve_request_detail(e, id, &detail, x); },
      [&] { rserve_detail_destroy(detail); });
  const int32_t tokens[] = {1, 2, 3};
  char text[64];
  size_t length = 0;
  FailEach(
      "decode",
      [&](rserve_error** x) { return rserve_engine_decode(e, tokens, 3, text, 64, &length, x); },
      [] {});
  rserve_event events[4];
  size_t count = 0;
  FailEach(
      "poll",
      [&](rserve_error** x) {
        return rserve_engine_poll(e, events, 4, sizeof(events[0]), &count, x);
      },
      [] {});
  rserve_model_info info = RSERVE_MODEL_INFO_INIT;
  FailEach(
      "model info", [&](rserve_error** x) { return rserve_engine_get_model_info(e, &info, x); },
      [] {});
  rserve_scheme_t scheme = 0;
  FailEach(
      "scheme", [&](rserve_error** x) { return rserve_scheme_parse("epd", 3, &scheme, x); }, [] {});
  // A call that fails for another reason still says so, without its text at worst.
  for (int64_t n = 1; n < 10; ++n) {
    rserve_error* err = nullptr;
    FailAllocation(n);
    const rserve_status_t status = rserve_engine_cancel(e, 12345, &err);
    FailNoAllocation();
    CHECK((status == RSERVE_STATUS_NOT_FOUND || status == RSERVE_STATUS_RESOURCE_EXHAUSTED));
    rserve_error_destroy(err);
  }
}

// Not rserve_engine_create: the JSON library that reads a checkpoint's settings allocates when it
// frees, and ends the process if it can't.
TEST_CASE("Creating an engine over callbacks survives every allocation that fails") {
  const rserve_host_config config = RSERVE_HOST_CONFIG_INIT;
  rserve_executor executor = RSERVE_EXECUTOR_INIT;
  int destroyed = 0, created = 0;
  executor.ctx = &destroyed;
  executor.encode = [](void*, const rserve_encode_job*, uint64_t) -> rserve_status_t {
    return RSERVE_STATUS_INTERNAL;
  };
  executor.forward = [](void*, const rserve_stage_job*, uint64_t) -> rserve_status_t {
    return RSERVE_STATUS_INTERNAL;
  };
  executor.take_first_token = [](void*, uint64_t, int32_t*, float*) -> rserve_status_t {
    return RSERVE_STATUS_OK;
  };
  executor.destroy = [](void* ctx) { ++*static_cast<int*>(ctx); };
  rserve_engine* engine = nullptr;
  CHECK(FailEach(
            "create",
            [&](rserve_error** x) {
              ++created;
              return rserve_engine_create_with_executor(&config, &executor, nullptr, &engine, x);
            },
            [&] { rserve_engine_destroy(engine); }, LiveAllocations) > 20);
  CHECK(destroyed == created);
}

TEST_CASE("The calls of a host's own loop survive every allocation that fails") {
  rserve_host_config config = RSERVE_HOST_CONFIG_INIT;
  rserve_orchestrator* made = nullptr;
  CHECK(FailEach(
            "create",
            [&](rserve_error** x) { return rserve_orchestrator_create(&config, &made, x); },
            [&] { rserve_orchestrator_destroy(made); }) > 5);

  rserve_unit unit = {0, 0, 4, 64, 16};
  rserve_span span = {2, 4, 0, 0, 0};
  rserve_host_request request = RSERVE_HOST_REQUEST_INIT;
  request.request_id = 1;
  request.num_items = 1;
  request.prompt_tokens = 8;
  request.units = &unit;
  request.num_units = 1;
  request.spans = &span;
  request.num_spans = 1;
  // A step that finds no memory leaves an orchestrator that can only be destroyed.
  for (int64_t n = 1;; ++n) {
    CAPTURE(n);
    REQUIRE(rserve_orchestrator_create(&config, &made, nullptr) == RSERVE_STATUS_OK);
    FailAllocation(n);
    const rserve_status_t submitted = rserve_orchestrator_submit(made, &request, nullptr);
    const rserve_status_t stepped = rserve_orchestrator_step(made, 1, nullptr);
    const bool reached = !AllocationToFail();
    FailNoAllocation();
    if (submitted == RSERVE_STATUS_OK && stepped != RSERVE_STATUS_OK) {
      CHECK(stepped == RSERVE_STATUS_RESOURCE_EXHAUSTED);
      CHECK(rserve_orchestrator_step(made, 2, nullptr) == RSERVE_STATUS_FAILED_PRECONDITION);
    } else if (submitted != RSERVE_STATUS_OK) {
      CHECK(submitted == RSERVE_STATUS_RESOURCE_EXHAUSTED);
      CHECK(rserve_orchestrator_submit(made, &request, nullptr) == RSERVE_STATUS_OK);
      CHECK(rserve_orchestrator_step(made, 2, nullptr) == RSERVE_STATUS_OK);
    }
    rserve_orchestrator_destroy(made);
    if (!reached) break;
  }
}

}  // namespace
}  // namespace rserve::testing
