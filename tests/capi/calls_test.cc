// Calls in the wrong state, with nothing, twice, too late; and what callbacks are promised.

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "tests/capi/c_fixture.h"

namespace rserve::testing {
namespace {

TEST_CASE("NULL where something is needed is an error with the parameter's name") {
  const EnginePtr engine = MustCreate(TinyConfig());
  rserve_engine* const e = engine.get();
  const rserve_engine_config config = TinyConfig();
  const std::vector<rserve_part> parts = {TextPart("a")};
  const rserve_request request = RequestOf(parts);
  rserve_request no_parts = RSERVE_REQUEST_INIT;
  no_parts.num_parts = 1;
  rserve_scheme_t scheme = 0;
  uint64_t id = 0;
  size_t n = 0;
  char text[4];
  rserve_engine* made = nullptr;
  using Err = rserve_error**;
  const std::pair<const char*, std::function<rserve_status_t(Err)>> calls[] = {
      {"config", [&](Err x) { return rserve_engine_create(nullptr, &made, x); }},
      {"engine", [&](Err x) { return rserve_engine_create(&config, nullptr, x); }},
      {"name", [&](Err x) { return rserve_scheme_parse(nullptr, 3, &scheme, x); }},
      {"scheme", [&](Err x) { return rserve_scheme_parse("epd", 3, nullptr, x); }},
      {"engine", [&](Err x) { return rserve_engine_submit(nullptr, &request, &id, x); }},
      {"request", [&](Err x) { return rserve_engine_submit(e, nullptr, &id, x); }},
      {"request_id", [&](Err x) { return rserve_engine_submit(e, &request, nullptr, x); }},
      {"parts", [&](Err x) { return rserve_engine_submit(e, &no_parts, &id, x); }},
      {"engine", [&](Err x) { return rserve_engine_cancel(nullptr, 1, x); }},
      {"engine", [&](Err x) { return rserve_engine_drain(nullptr, x); }},
      {"engine", [&](Err x) { return rserve_engine_abort(nullptr, x); }},
      {"engine", [&](Err x) { return rserve_engine_acknowledge(nullptr, 1, x); }},
      {"events", [&](Err x) { return rserve_engine_poll(e, nullptr, 1, 64, &n, x); }},
      {"count", [&](Err x) { return rserve_engine_poll(e, nullptr, 0, 64, nullptr, x); }},
      {"detail", [&](Err x) { return rserve_request_detail(e, 1, nullptr, x); }},
      {"detail", [&](Err x) { return rserve_detail_get_info(nullptr, nullptr, x); }},
      {"detail", [&](Err x) { return rserve_detail_get_item(nullptr, 0, nullptr, x); }},
      {"plan", [&](Err x) { return rserve_engine_plan(e, &request, nullptr, x); }},
      {"plan", [&](Err x) { return rserve_plan_get_info(nullptr, nullptr, x); }},
      {"plan", [&](Err x) { return rserve_plan_get_item(nullptr, 0, nullptr, x); }},
      {"info", [&](Err x) { return rserve_engine_get_model_info(e, nullptr, x); }},
      {"stats", [&](Err x) { return rserve_engine_get_stats(e, nullptr, x); }},
      {"tokens", [&](Err x) { return rserve_engine_decode(e, nullptr, 1, text, 4, &n, x); }},
      {"text", [&](Err x) { return rserve_engine_decode(e, nullptr, 0, nullptr, 4, &n, x); }},
      {"length", [&](Err x) { return rserve_engine_decode(e, nullptr, 0, text, 4, nullptr, x); }},
  };
  for (const auto& [name, call] : calls) {
    CAPTURE(name);
    const Failure failure = Try(call);
    CHECK(failure.code == RSERVE_STATUS_INVALID_ARGUMENT);
    CHECK(failure.Mentions(name));
    CHECK(call(nullptr) == RSERVE_STATUS_INVALID_ARGUMENT);  // nobody wants the error
  }
  CHECK(made == nullptr);
  CHECK(rserve_engine_wait_fd(nullptr) == -1);
  CHECK(rserve_engine_next_deadline_ns(nullptr) == INT64_MAX);
  CHECK(rserve_error_code(nullptr) == RSERVE_STATUS_OK);
  CHECK(std::string(rserve_error_message(nullptr, nullptr)).empty());
  CHECK(std::string(rserve_detail_message(nullptr, &n)).empty());
  CHECK(rserve_detail_tokens(nullptr, &n) == nullptr);
  CHECK(n == 0);
  rserve_engine_destroy(nullptr);
  rserve_error_destroy(nullptr);
  rserve_detail_destroy(nullptr);
  rserve_plan_destroy(nullptr);
}

TEST_CASE("versions, statuses and schemes have names") {
  CHECK(std::string(rserve_version()) == "0.2.0");
  CHECK((rserve_abi_version() >> 16) == RSERVE_ABI_MAJOR);
  CHECK((rserve_abi_version() & 0xffff) >= RSERVE_ABI_MINOR);
  CHECK(std::string(rserve_status_name(RSERVE_STATUS_OK)) == "OK");
  CHECK(std::string(rserve_status_name(RSERVE_STATUS_UNAUTHENTICATED)) == "UNAUTHENTICATED");
  CHECK(std::string(rserve_status_name(-1)) == "UNKNOWN");
  CHECK(std::string(rserve_status_name(17)) == "UNKNOWN");
  rserve_scheme_t scheme = 77;
  CHECK(rserve_scheme_parse("epd", 3, &scheme, nullptr) == RSERVE_STATUS_OK);
  CHECK(scheme == RSERVE_SCHEME_EPD);
  CHECK(rserve_scheme_parse("epd", 2, &scheme, nullptr) == RSERVE_STATUS_INVALID_ARGUMENT);
  CHECK(scheme == RSERVE_SCHEME_EPD);
}

TEST_CASE("ids that are not, or no longer, known are NOT_FOUND") {
  const EnginePtr engine = MustCreate(TinyConfig());
  const std::vector<rserve_part> parts = {TextPart("a")};
  uint64_t id = 0;
  REQUIRE(Submit(engine.get(), RequestOf(parts), &id).code == RSERVE_STATUS_OK);
  WaitFor(engine.get(), 1);
  CHECK(rserve_engine_cancel(engine.get(), id, nullptr) == RSERVE_STATUS_NOT_FOUND);
  CHECK(rserve_engine_acknowledge(engine.get(), id, nullptr) == RSERVE_STATUS_OK);
  for (const uint64_t stale : {id, uint64_t{0}, id + 1, UINT64_MAX}) {
    rserve_detail* detail = nullptr;
    CHECK(rserve_engine_cancel(engine.get(), stale, nullptr) == RSERVE_STATUS_NOT_FOUND);
    CHECK(rserve_engine_acknowledge(engine.get(), stale, nullptr) == RSERVE_STATUS_NOT_FOUND);
    CHECK(rserve_request_detail(engine.get(), stale, &detail, nullptr) == RSERVE_STATUS_NOT_FOUND);
    CHECK(detail == nullptr);
  }
}

TEST_CASE("a second cancel of an open request is fine, and it ends once") {
  const EnginePtr engine = MustCreate(TinyConfig());
  const std::vector<uint8_t> png = TestPng(120, 120, 1);
  const std::vector<rserve_part> parts(16, ImagePart(png));
  uint64_t id = 0;
  REQUIRE(Submit(engine.get(), RequestOf(parts), &id).code == RSERVE_STATUS_OK);
  const rserve_status_t first = rserve_engine_cancel(engine.get(), id, nullptr);
  const rserve_status_t second = rserve_engine_cancel(engine.get(), id, nullptr);
  CHECK((first == RSERVE_STATUS_OK || first == RSERVE_STATUS_NOT_FOUND));
  CHECK((second == RSERVE_STATUS_OK || second == RSERVE_STATUS_NOT_FOUND));
  const std::vector<rserve_event> events = WaitFor(engine.get(), 1);
  // Best effort: on a machine that is busy elsewhere it may have finished before the cancel.
  const bool cancelled = events.back().type == RSERVE_EVENT_CANCELLED;
  CHECK((cancelled || events.back().type == RSERVE_EVENT_FINISHED));
  CHECK(events.back().status == (cancelled ? RSERVE_STATUS_CANCELLED : RSERVE_STATUS_OK));
  if (!cancelled) CHECK(second == RSERVE_STATUS_NOT_FOUND);
}

TEST_CASE("after drain and after abort a submit is refused and nothing comes of it") {
  for (auto* end : {rserve_engine_drain, rserve_engine_abort}) {
    const EnginePtr engine = MustCreate(TinyConfig());
    CHECK(end(engine.get(), nullptr) == RSERVE_STATUS_OK);
    CHECK(end(engine.get(), nullptr) == RSERVE_STATUS_OK);
    const std::vector<rserve_part> parts = {TextPart("a")};
    uint64_t id = 4711;
    CHECK(Submit(engine.get(), RequestOf(parts), &id).code == RSERVE_STATUS_FAILED_PRECONDITION);
    CHECK(id == 4711);
    rserve_event event;
    size_t count = 7;
    CHECK(rserve_engine_poll(engine.get(), &event, 1, sizeof(event), &count, nullptr) ==
          RSERVE_STATUS_OK);
    CHECK(count == 0);
  }
}

TEST_CASE("a forked child cannot use its parent's engine") {
  const EnginePtr engine = MustCreate(TinyConfig());
  const std::vector<rserve_part> parts = {TextPart("a")};
  const rserve_request request = RequestOf(parts);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    uint64_t id = 0;
    const bool refused = rserve_engine_submit(engine.get(), &request, &id, nullptr) ==
                         RSERVE_STATUS_FAILED_PRECONDITION;
    rserve_engine_destroy(engine.get());  // must neither wait nor free
    _exit(refused && rserve_engine_wait_fd(engine.get()) == -1 ? 0 : 1);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE("submits from many threads race a drain, and each accepted one ends once") {
  const EnginePtr engine = MustCreate(TinyConfig());
  const std::vector<uint8_t> pixels = TestPixels(16, 16, 1);
  std::atomic<size_t> accepted = 0;
  {
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < 12; ++i) {
          rserve_part part = {};
          part.type = RSERVE_PART_PIXELS;
          part.flags = RSERVE_PART_F_BORROW;
          part.data = pixels.data();
          part.count = pixels.size();
          part.width = part.height = 16;
          const std::vector<rserve_part> parts = {part};
          const rserve_request request = RequestOf(parts);
          uint64_t id = 0;
          if (rserve_engine_submit(engine.get(), &request, &id, nullptr) == RSERVE_STATUS_OK) {
            accepted.fetch_add(1);
            if (i % 3 == 0) rserve_engine_cancel(engine.get(), id, nullptr);
          }
          if (t == 0 && i == 6) rserve_engine_drain(engine.get(), nullptr);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  const std::vector<rserve_event> events = WaitFor(engine.get(), accepted.load());
  rserve_stats stats = RSERVE_STATS_INIT;
  CHECK(rserve_engine_get_stats(engine.get(), &stats, nullptr) == RSERVE_STATUS_OK);
  CHECK(stats.accepted == static_cast<int64_t>(accepted.load()));
  CHECK(stats.finished + stats.cancelled == stats.accepted);
}

// ---- Callbacks
// -----------------------------------------------------------------------------------

struct Counts {
  std::atomic<int> logs{0}, reports{0}, log_destroys{0}, progress_destroys{0};
  rserve_engine* engine = nullptr;
  rserve_status_t submit_in_destroy = RSERVE_STATUS_OK;
};

rserve_log LogInto(Counts* counts) {
  rserve_log log = RSERVE_LOG_INIT;
  log.ctx = counts;
  log.write = [](void* ctx, const rserve_log_record* record) {
    if (record->message_length == std::strlen(record->message) && record->t_mono_ns > 0) {
      static_cast<Counts*>(ctx)->logs.fetch_add(1);
    }
  };
  log.destroy = [](void* ctx) {
    auto* counts = static_cast<Counts*>(ctx);
    counts->log_destroys.fetch_add(1);
    if (counts->engine == nullptr) return;
    rserve_request request = RSERVE_REQUEST_INIT;
    uint64_t id = 0;
    counts->submit_in_destroy = rserve_engine_submit(counts->engine, &request, &id, nullptr);
  };
  return log;
}

rserve_load_progress ProgressInto(Counts* counts) {
  rserve_load_progress progress = RSERVE_LOAD_PROGRESS_INIT;
  progress.ctx = counts;
  progress.report = [](void* ctx, int64_t, int64_t) {
    static_cast<Counts*>(ctx)->reports.fetch_add(1);
  };
  progress.destroy = [](void* ctx) { static_cast<Counts*>(ctx)->progress_destroys.fetch_add(1); };
  return progress;
}

TEST_CASE("callbacks are used, and their contexts destroyed once when the engine has ended") {
  Counts counts;
  rserve_log log = LogInto(&counts);
  rserve_load_progress progress = ProgressInto(&counts);
  rserve_engine_config config = TinyConfig();
  config.log = &log;
  config.load_progress = &progress;
  EnginePtr engine = MustCreate(config);
  log = RSERVE_LOG_INIT;  // it was copied
  CHECK(counts.reports > 0);
  CHECK(counts.logs > 0);
  CHECK(counts.progress_destroys == 1);
  CHECK(counts.log_destroys == 0);
  counts.engine = engine.get();
  engine.reset();
  CHECK(counts.log_destroys == 1);
  CHECK(counts.progress_destroys == 1);
  CHECK(counts.submit_in_destroy == RSERVE_STATUS_FAILED_PRECONDITION);
}

TEST_CASE("callbacks' contexts are destroyed once when creation fails, however it fails") {
  const std::vector<void (*)(rserve_engine_config*)> spoil = {
      [](rserve_engine_config* c) { c->model_path = nullptr; },
      [](rserve_engine_config* c) { c->stages = -3; },
      [](rserve_engine_config* c) { c->model_path_length -= 2; },
      [](rserve_engine_config* c) { c->struct_size = 5000; },
      [](rserve_engine_config* c) { c->kv_tokens = INT64_MAX; },
  };
  for (size_t i = 0; i <= spoil.size(); ++i) {
    CAPTURE(i);
    Counts counts;
    const rserve_log log = LogInto(&counts);
    const rserve_load_progress progress = ProgressInto(&counts);
    rserve_engine_config config = TinyConfig();
    config.log = &log;
    config.load_progress = &progress;
    rserve_engine* engine = nullptr;
    if (i < spoil.size()) spoil[i](&config);
    rserve_engine** const out = i < spoil.size() ? &engine : nullptr;
    CHECK(rserve_engine_create(&config, out, nullptr) != RSERVE_STATUS_OK);
    CHECK(engine == nullptr);
    CHECK(counts.log_destroys == 1);
    CHECK(counts.progress_destroys == 1);
  }
}

TEST_CASE("a callback struct with a fault is destroyed if it is long enough to have a destroy") {
  Counts counts;
  rserve_log log = LogInto(&counts);
  rserve_engine_config config = TinyConfig();
  config.log = &log;
  rserve_engine* engine = nullptr;
  log.reserved = 1;
  CHECK(rserve_engine_create(&config, &engine, nullptr) == RSERVE_STATUS_INVALID_ARGUMENT);
  CHECK(counts.log_destroys == 1);
  log.reserved = 0;
  log.struct_size = offsetof(rserve_log, destroy);
  CHECK(rserve_engine_create(&config, &engine, nullptr) == RSERVE_STATUS_INVALID_ARGUMENT);
  CHECK(counts.log_destroys == 1);
}

}  // namespace
}  // namespace rserve::testing
