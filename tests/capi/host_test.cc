// host.h: the orchestrator and the executor of a host, through the C ABI.

#include <poll.h>

#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "rserve/host.h"
#include "tests/support/catch.h"

namespace {

// An error as "CODE: message", freed. By address: the call that sets it is an argument too.
std::string Text(rserve_status_t status, rserve_error** error) {
  rserve_error* const err = *error;
  std::string text = rserve_status_name(status);
  if (err != nullptr) text += std::string(": ") + rserve_error_message(err, nullptr);
  rserve_error_destroy(err);
  return text;
}

// A request of `pictures` pictures of 4 tokens, two tokens of text before each and after the last.
struct Request {
  Request(uint64_t id, int pictures) : spans(pictures), units(pictures) {
    c.request_id = id;
    c.user_data = id * 10;
    c.num_items = pictures;
    for (int i = 0; i < pictures; ++i) {
      units[i] = {i, 0, 4, 64, 16};
      spans[i] = {c.prompt_tokens + 2, 4, 0, i, 0};
      c.prompt_tokens += 6;
    }
    c.prompt_tokens += 2;
    c.units = units.data();
    c.num_units = units.size();
    c.spans = spans.data();
    c.num_spans = spans.size();
  }
  std::vector<rserve_span> spans;
  std::vector<rserve_unit> units;
  rserve_host_request c = RSERVE_HOST_REQUEST_INIT;
};

rserve_host_config SmallConfig() {
  rserve_host_config config = RSERVE_HOST_CONFIG_INIT;
  config.encode_batch_tokens = 1;
  config.token_budget = 64;
  return config;
}

// ---- The orchestrator

struct Core {
  explicit Core(const rserve_host_config& config) {
    rserve_error* err = nullptr;
    const rserve_status_t status = rserve_orchestrator_create(&config, &handle, &err);
    created = Text(status, &err);
  }
  ~Core() { rserve_orchestrator_destroy(handle); }

  std::string Submit(const Request& request) {
    rserve_error* err = nullptr;
    return Text(rserve_orchestrator_submit(handle, &request.c, &err), &err);
  }
  // Steps and returns the actions as lines; tokens are kept in `tokens` by line.
  std::vector<std::string> Step(int64_t now_ns) {
    REQUIRE(rserve_orchestrator_step(handle, now_ns, nullptr) == RSERVE_STATUS_OK);
    std::vector<std::string> lines;
    rserve_action a = RSERVE_ACTION_INIT;
    while (rserve_orchestrator_next_action(handle, &a, nullptr) == RSERVE_STATUS_OK &&
           a.kind != RSERVE_ACTION_NONE) {
      lines.push_back(Line(a));
      if (a.token != 0) tokens[lines.back()] = a.token;
    }
    return lines;
  }
  std::string Finish(rserve_action_kind_t kind, const std::string& line,
                     rserve_status_t status = RSERVE_STATUS_OK, const std::string& message = "") {
    rserve_error* err = nullptr;
    return Text(rserve_orchestrator_finish(handle, kind, tokens[line], status, message.data(),
                                           message.size(), &err),
                &err);
  }
  static std::string Line(const rserve_action& a) {
    const std::string of = std::to_string(a.request_id);
    switch (a.kind) {
      case RSERVE_ACTION_PREPARE:
        return "prepare " + of + ":" + std::to_string(a.unit);
      case RSERVE_ACTION_ENCODE: {
        std::string line = "encode";
        for (size_t i = 0; i < a.num_units; ++i) {
          line +=
              " " + std::to_string(a.units[i].request_id) + ":" + std::to_string(a.units[i].unit);
        }
        return line;
      }
      case RSERVE_ACTION_STAGE: {
        std::string line = "stage " + std::to_string(a.stage);
        int64_t tokens = 0;
        for (size_t i = 0; i < a.num_entries; ++i) {
          const rserve_stage_entry& e = a.entries[i];
          tokens += e.tokens;
          line += " " + std::to_string(e.request_id) + "[" + std::to_string(e.token_begin) + "," +
                  std::to_string(e.token_begin + e.tokens) + ")";
          for (size_t s = 0; s < e.num_slices; ++s) {
            line += " u" + std::to_string(e.slices[s].unit) + "+" +
                    std::to_string(e.slices[s].row_begin);
          }
          if ((e.flags & RSERVE_ENTRY_F_LAST_CHUNK) != 0) line += " last";
          CHECK(e.num_kv_blocks >= 1);
          CHECK(e.kv_blocks[0] >= 0);
        }
        CHECK(tokens == a.tokens);
        return line;
      }
      case RSERVE_ACTION_DROP_MICRO_BATCH:
        return "drop";
      case RSERVE_ACTION_RELEASE_PIXELS:
        return "free pixels " + of + ":" + std::to_string(a.unit);
      case RSERVE_ACTION_RELEASE_EMBEDDING:
        return "free embedding " + of + ":" + std::to_string(a.unit);
      case RSERVE_ACTION_FORGET:
        return "forget " + of;
      default: {
        CHECK(a.kind == RSERVE_ACTION_EVENT);
        CHECK(a.user_data / 10 == a.request_id);
        CHECK(std::strlen(a.message) == a.message_length);
        std::string line = "event " + std::to_string(a.event_type) + " of " + of;
        if (a.item >= 0) line += " item " + std::to_string(a.item);
        if (a.status != RSERVE_STATUS_OK) {
          line += std::string(" ") + rserve_status_name(a.status) + ": " + a.message;
        }
        return line;
      }
    }
  }

  rserve_orchestrator* handle = nullptr;
  std::string created;
  std::map<std::string, uint64_t> tokens;
};

using Lines = std::vector<std::string>;

TEST_CASE("A host's own loop takes a request from its arrival to its first token") {
  Core core(SmallConfig());
  REQUIRE(core.created == "OK");
  REQUIRE(core.Submit(Request(7, 1)) == "OK");
  CHECK(core.Step(100) == Lines{"event 1 of 7", "stage 0 7[0,2)", "encode 7:0"});
  CHECK(core.Finish(RSERVE_ACTION_ENCODE, "encode 7:0") == "OK");
  CHECK(core.Step(200) == Lines{"free pixels 7:0", "event 2 of 7 item 0", "event 3 of 7 item 0"});
  CHECK(core.Finish(RSERVE_ACTION_STAGE, "stage 0 7[0,2)") == "OK");
  CHECK(core.Step(300) == Lines{"stage 0 7[2,8) u0+0 last"});
  CHECK(core.Finish(RSERVE_ACTION_STAGE, "stage 0 7[2,8) u0+0 last") == "OK");
  CHECK(core.Step(400) == Lines{"free embedding 7:0", "event 4 of 7", "event 5 of 7", "forget 7"});
  rserve_stats stats = RSERVE_STATS_INIT;
  REQUIRE(rserve_orchestrator_get_stats(core.handle, &stats, nullptr) == RSERVE_STATUS_OK);
  CHECK(stats.idle == 1);
  CHECK(stats.finished == 1);
  CHECK(stats.peak_embedding_bytes == 64);
  CHECK(rserve_orchestrator_next_wake_ns(core.handle) == INT64_MAX);
}

TEST_CASE("A request whose first KV blocks have been written begins behind them") {
  rserve_host_config config = SmallConfig();
  config.kv_block_tokens = 4;
  Core core(config);
  REQUIRE(core.created == "OK");
  const std::vector<uint8_t> keys(2 * RSERVE_KV_KEY_BYTES, 7);
  std::vector<uint8_t> last = keys;
  last.back() = 8;  // of the second block, which is of the first picture's rows
  const auto run = [&core](uint64_t id, const std::vector<uint8_t>& given) {
    Request request(id, 1);  // 8 tokens, rows at 2 to 6
    request.c.kv_block_keys = given.data();
    request.c.num_kv_block_keys = given.size() / RSERVE_KV_KEY_BYTES;
    REQUIRE(core.Submit(request) == "OK");
    std::string all;
    for (int step = 0; step < 3; ++step) {
      for (const std::string& line : core.Step(static_cast<int64_t>(id) * 10 + step)) {
        all += line + "; ";
        if (line.rfind("encode", 0) == 0) core.Finish(RSERVE_ACTION_ENCODE, line);
        if (line.rfind("stage", 0) == 0) core.Finish(RSERVE_ACTION_STAGE, line);
      }
    }
    return all;
  };
  CHECK(run(1, last).find("1[0,2)") != std::string::npos);
  // The first block has the first half of the rows, so the picture is needed.
  const std::string again = run(2, last);
  CHECK(again.find("encode 2:0") != std::string::npos);
  CHECK(again.find("2[4,8)") != std::string::npos);
  rserve_stats stats = RSERVE_STATS_INIT;
  REQUIRE(rserve_orchestrator_get_stats(core.handle, &stats, nullptr) == RSERVE_STATUS_OK);
  CHECK(stats.reused_tokens == 4);
  CHECK(stats.kv_blocks_cached == 2);
  CHECK(stats.kv_blocks_used == 0);

  Request request(3, 1);
  request.c.num_kv_block_keys = 1;
  CHECK(core.Submit(request).find("kv_block_keys") != std::string::npos);
}

TEST_CASE("A submit that is not accepted says why in its event, with its own user data") {
  rserve_host_config config = SmallConfig();
  config.embedding_bytes = 63;
  Core core(config);
  REQUIRE(core.created == "OK");
  core.Submit(Request(1, 1));
  core.Submit(Request(2, 0));
  const Lines lines = core.Step(1);
  REQUIRE(lines.size() == 3);
  CHECK(lines[0].find("event 8 of 1 RESOURCE_EXHAUSTED") == 0);
  CHECK(lines[0].find("embedding_bytes = 63") != std::string::npos);
  CHECK(lines[1] == "event 1 of 2");
  // The same id again: the new submit is refused, the open request goes on.
  core.Submit(Request(2, 0));
  CHECK(core.Step(2) == Lines{"event 8 of 2 ALREADY_EXISTS: request id 2 is in use"});
  rserve_error* err = nullptr;
  const Request one(9, 1);
  const rserve_status_t status = rserve_orchestrator_check(core.handle, &one.c, &err);
  CHECK(Text(status, &err).find("RESOURCE_EXHAUSTED: ") == 0);
}

TEST_CASE("Failures, cancels, deadlines and lost workers of a host's own loop") {
  rserve_host_config config = SmallConfig();
  config.prepare_lanes = 1;
  Core core(config);
  REQUIRE(core.created == "OK");

  SECTION("a failed action ends its request with the host's words") {
    core.Submit(Request(1, 1));
    core.Step(1);
    CHECK(core.Finish(RSERVE_ACTION_PREPARE, "prepare 1:0", RSERVE_STATUS_DATA_LOSS, "bad") ==
          "OK");
    const Lines lines = core.Step(2);
    CHECK(std::count(lines.begin(), lines.end(), "event 6 of 1 DATA_LOSS: bad") == 1);
  }
  SECTION("an encode whose units fare differently fails some requests and not the others") {
    rserve_host_config across = SmallConfig();
    across.encode_batch_tokens = 8;
    across.flags = RSERVE_ENGINE_F_ENCODE_ACROSS_REQUESTS;
    Core both(across);
    both.Submit(Request(1, 1));
    both.Submit(Request(2, 1));
    const Lines started = both.Step(1);
    REQUIRE(std::count(started.begin(), started.end(), "encode 1:0 2:0") == 1);
    const rserve_status_t fates[] = {RSERVE_STATUS_OK, RSERVE_STATUS_INTERNAL};
    REQUIRE(rserve_orchestrator_finish_units(both.handle, both.tokens["encode 1:0 2:0"], fates, 2,
                                             nullptr) == RSERVE_STATUS_OK);
    const Lines lines = both.Step(2);
    CHECK(std::count(lines.begin(), lines.end(), "event 2 of 1 item 0") == 1);
    CHECK(std::count(lines.begin(), lines.end(), "event 6 of 2 INTERNAL: ") == 1);
  }
  SECTION("a cancelled request gives its buffers back when its actions have ended") {
    core.Submit(Request(1, 1));
    core.Step(1);
    REQUIRE(rserve_orchestrator_cancel(core.handle, 1, nullptr) == RSERVE_STATUS_OK);
    CHECK(core.Step(2).empty());  // a preparation still reads the host's pixels
    core.Finish(RSERVE_ACTION_PREPARE, "prepare 1:0");
    const Lines ended = core.Step(3);
    CHECK(std::count(ended.begin(), ended.end(),
                     "event 7 of 1 CANCELLED: cancelled by the caller") == 1);
    core.Finish(RSERVE_ACTION_STAGE, "stage 0 1[0,2)");
    CHECK(core.Step(4).back() == "forget 1");
  }
  SECTION("a deadline wakes the loop and fails the request") {
    Request late(1, 0);
    late.c.deadline_ns = 50;
    core.Submit(late);
    core.Step(1);
    CHECK(rserve_orchestrator_next_wake_ns(core.handle) == 50);
    const Lines lines = core.Step(50);
    REQUIRE(!lines.empty());
    CHECK(lines[0].find("event 6 of 1 DEADLINE_EXCEEDED") == 0);
  }
  SECTION("the loss of the stage ends every request") {
    core.Submit(Request(1, 0));
    core.Step(1);
    REQUIRE(rserve_orchestrator_lose_worker(core.handle, 0, "gone", 4, nullptr) ==
            RSERVE_STATUS_OK);
    const Lines lines = core.Step(2);
    CHECK(std::count(lines.begin(), lines.end(),
                     "event 6 of 1 UNAVAILABLE: worker 0 is lost: gone") == 1);
    CHECK(lines.back() == "forget 1");
  }
  SECTION("abort ends what is open and refuses what is new") {
    core.Submit(Request(1, 0));
    core.Step(1);
    REQUIRE(rserve_orchestrator_abort(core.handle, nullptr) == RSERVE_STATUS_OK);
    core.Submit(Request(2, 0));
    const Lines lines = core.Step(2);
    REQUIRE(lines.size() == 2);
    CHECK(lines[0] == "event 7 of 1 CANCELLED: the engine was aborted");
    CHECK(lines[1].find("event 8 of 2 FAILED_PRECONDITION") == 0);
  }
}

TEST_CASE("Arguments that an orchestrator cannot take are named") {
  rserve_host_config config = SmallConfig();
  config.gate = 9;
  CHECK(Core(config).created == "INVALID_ARGUMENT: gate has the unknown value 9");
  config = SmallConfig();
  config.kv_blocks = int64_t{1} << 40;
  CHECK(Core(config).created == "INVALID_ARGUMENT: kv_blocks has the unknown value 1099511627776");
  config = SmallConfig();
  config.num_workers = 1;
  CHECK(Core(config).created == "INVALID_ARGUMENT: workers is NULL with 1 entries");
  const rserve_worker lonely = {RSERVE_WORKER_F_ENCODER, 0, 0, 0};
  config.workers = &lonely;
  CHECK(Core(config).created == "INVALID_ARGUMENT: workers: none hosts a stage");
  config = SmallConfig();
  config.struct_size = 8;
  CHECK(Core(config).created.find("INVALID_ARGUMENT: rserve_host_config has a size of 8") == 0);

  Core core(SmallConfig());
  Request request(1, 1);
  request.c.units = nullptr;
  CHECK(core.Submit(request) == "INVALID_ARGUMENT: units is NULL with 1 entries");
  request = Request(1, 1);
  request.spans[0].flags = 2;
  request.c.spans = request.spans.data();
  request.c.units = request.units.data();
  CHECK(core.Submit(request) == "INVALID_ARGUMENT: spans::flags has the unknown value 2");
  CHECK(core.Finish(RSERVE_ACTION_EVENT, "") ==
        "INVALID_ARGUMENT: kind is 7; only PREPARE (1), ENCODE (2) and STAGE (3) are finished");
  CHECK(core.Finish(RSERVE_ACTION_STAGE, "", 99) ==
        "INVALID_ARGUMENT: status has the unknown value 99");
  CHECK(core.Finish(RSERVE_ACTION_STAGE, "") == "OK");  // token 0 is nobody's
  core.Step(1);
  rserve_stats stats = RSERVE_STATS_INIT;
  rserve_orchestrator_get_stats(core.handle, &stats, nullptr);
  CHECK(stats.stale_tokens == 1);

  // A struct of a wrong size takes no action away.
  core.Submit(Request(2, 0));
  rserve_orchestrator_step(core.handle, 2, nullptr);
  rserve_action action = RSERVE_ACTION_INIT;
  action.struct_size = 3;
  CHECK(rserve_orchestrator_next_action(core.handle, &action, nullptr) ==
        RSERVE_STATUS_INVALID_ARGUMENT);
  action.struct_size = sizeof(action);
  CHECK(rserve_orchestrator_next_action(core.handle, &action, nullptr) == RSERVE_STATUS_OK);
  CHECK(action.event_type == RSERVE_EVENT_ACCEPTED);

  CHECK(rserve_orchestrator_step(nullptr, 1, nullptr) == RSERVE_STATUS_INVALID_ARGUMENT);
  CHECK(rserve_orchestrator_next_wake_ns(nullptr) == INT64_MAX);
  rserve_orchestrator_destroy(nullptr);
}

// ---- The executor

// A host's model that does as a test says. Its calls are held until the test completes them.
struct Host {
  rserve_engine* engine = nullptr;
  bool hold = false;  // encode and forward return and are completed by the test
  rserve_status_t encode_status = RSERVE_STATUS_OK;
  rserve_status_t token_status = RSERVE_STATUS_OK;
  std::atomic<int> destroyed{0};
  std::atomic<int> forgotten{0};
  std::mutex mutex;
  std::vector<uint64_t> held;

  rserve_executor callbacks() {
    rserve_executor e = RSERVE_EXECUTOR_INIT;
    e.ctx = this;
    e.encode = [](void* ctx, const rserve_encode_job*, uint64_t token) {
      Host* host = static_cast<Host*>(ctx);
      if (host->encode_status != RSERVE_STATUS_OK) return host->encode_status;
      return host->Start(token);
    };
    e.forward = [](void* ctx, const rserve_stage_job*, uint64_t token) {
      return static_cast<Host*>(ctx)->Start(token);
    };
    e.take_first_token = [](void* ctx, uint64_t id, int32_t* token, float* logprob) {
      *token = static_cast<int32_t>(id) + 100;
      *logprob = -1.0f;
      return static_cast<Host*>(ctx)->token_status;
    };
    e.forget = [](void* ctx, uint64_t) { ++static_cast<Host*>(ctx)->forgotten; };
    e.destroy = [](void* ctx) { ++static_cast<Host*>(ctx)->destroyed; };
    return e;
  }
  rserve_status_t Start(uint64_t token) {
    if (hold) {
      std::lock_guard<std::mutex> lock(mutex);
      held.push_back(token);
      return RSERVE_STATUS_OK;
    }
    return rserve_engine_complete(engine, token, RSERVE_STATUS_OK, nullptr, 0, nullptr);
  }
  uint64_t AwaitHeld() {
    for (;;) {
      {
        std::lock_guard<std::mutex> lock(mutex);
        if (!held.empty()) {
          const uint64_t token = held.back();
          held.pop_back();
          return token;
        }
      }
      std::this_thread::yield();
    }
  }
  std::string Create(const rserve_host_config& config) {
    const rserve_executor e = callbacks();
    rserve_error* err = nullptr;
    return Text(rserve_engine_create_with_executor(&config, &e, nullptr, &engine, &err), &err);
  }
};

std::string SubmitPlan(rserve_engine* engine, const Request& request) {
  rserve_error* err = nullptr;
  return Text(rserve_engine_submit_plan(engine, &request.c, &err), &err);
}

// Types of the events of a request up to its terminal one.
std::vector<int> UntilEnd(rserve_engine* engine, uint64_t id) {
  std::vector<int> types;
  for (;;) {
    pollfd waiting = {rserve_engine_wait_fd(engine), POLLIN, 0};
    poll(&waiting, 1, -1);
    rserve_event event;
    size_t count = 0;
    while (rserve_engine_poll(engine, &event, 1, sizeof(event), &count, nullptr) ==
               RSERVE_STATUS_OK &&
           count == 1) {
      if (event.request_id != id) continue;
      types.push_back(event.type);
      if (event.type == RSERVE_EVENT_ITEM_ENCODED) CHECK(event.u.item.tokens == 4);
      if ((event.flags & RSERVE_EVENT_F_MORE) == 0) return types;
    }
  }
}

std::string DetailMessage(rserve_engine* engine, uint64_t id) {
  rserve_detail* detail = nullptr;
  REQUIRE(rserve_request_detail(engine, id, &detail, nullptr) == RSERVE_STATUS_OK);
  const std::string message = rserve_detail_message(detail, nullptr);
  rserve_detail_destroy(detail);
  return message;
}

TEST_CASE("An engine over a host's callbacks serves requests and keeps their details") {
  Host host;
  REQUIRE(host.Create(SmallConfig()) == "OK");
  REQUIRE(SubmitPlan(host.engine, Request(5, 2)) == "OK");
  const std::vector<int> types = UntilEnd(host.engine, 5);
  CHECK(std::count(types.begin(), types.end(), RSERVE_EVENT_ITEM_ENCODED) == 2);
  CHECK(types[types.size() - 2] == RSERVE_EVENT_FIRST_TOKEN);
  CHECK(types.back() == RSERVE_EVENT_FINISHED);

  rserve_detail* detail = nullptr;
  REQUIRE(rserve_request_detail(host.engine, 5, &detail, nullptr) == RSERVE_STATUS_OK);
  rserve_detail_info info = RSERVE_DETAIL_INFO_INIT;
  REQUIRE(rserve_detail_get_info(detail, &info, nullptr) == RSERVE_STATUS_OK);
  CHECK(info.token == 105);
  CHECK(info.num_items == 2);
  CHECK(info.user_data == 50);
  CHECK(info.first_token_ns >= info.submitted_ns);
  rserve_detail_destroy(detail);

  CHECK(SubmitPlan(host.engine, Request(5, 0)) ==
        "ALREADY_EXISTS: request 5 is open or not acknowledged");
  CHECK(rserve_engine_acknowledge(host.engine, 5, nullptr) == RSERVE_STATUS_OK);
  REQUIRE(SubmitPlan(host.engine, Request(5, 0)) == "OK");
  CHECK(UntilEnd(host.engine, 5).back() == RSERVE_EVENT_FINISHED);
  rserve_engine_destroy(host.engine);
  CHECK(host.destroyed == 1);
  CHECK(host.forgotten == 2);
}

TEST_CASE("What a host's callbacks answer ends their request, once, with words") {
  Host host;
  REQUIRE(host.Create(SmallConfig()) == "OK");
  host.encode_status = RSERVE_STATUS_DATA_LOSS;
  REQUIRE(SubmitPlan(host.engine, Request(1, 1)) == "OK");
  CHECK(UntilEnd(host.engine, 1).back() == RSERVE_EVENT_FAILED);
  CHECK(DetailMessage(host.engine, 1) == "the executor's encode failed with DATA_LOSS");
  host.encode_status = 77;
  REQUIRE(SubmitPlan(host.engine, Request(2, 1)) == "OK");
  CHECK(UntilEnd(host.engine, 2).back() == RSERVE_EVENT_FAILED);
  CHECK(DetailMessage(host.engine, 2) == "the executor's encode returned 77, which is no status");
  host.token_status = RSERVE_STATUS_INTERNAL;
  REQUIRE(SubmitPlan(host.engine, Request(3, 0)) == "OK");
  CHECK(UntilEnd(host.engine, 3).back() == RSERVE_EVENT_FAILED);
  rserve_engine_destroy(host.engine);
  CHECK(host.destroyed == 1);
}

TEST_CASE("Completions come from any thread, once, and also while destroy waits for them") {
  Host host;
  host.hold = true;
  REQUIRE(host.Create(SmallConfig()) == "OK");
  REQUIRE(SubmitPlan(host.engine, Request(1, 0)) == "OK");
  uint64_t token = host.AwaitHeld();
  CHECK(rserve_engine_complete(host.engine, token, RSERVE_STATUS_OK, nullptr, 0, nullptr) ==
        RSERVE_STATUS_OK);
  CHECK(rserve_engine_complete(host.engine, token, RSERVE_STATUS_OK, nullptr, 0, nullptr) ==
        RSERVE_STATUS_NOT_FOUND);
  CHECK(UntilEnd(host.engine, 1).back() == RSERVE_EVENT_FINISHED);

  REQUIRE(SubmitPlan(host.engine, Request(2, 0)) == "OK");
  token = host.AwaitHeld();
  std::thread other([&] {
    while (rserve_engine_wait_fd(host.engine) >= 0) std::this_thread::yield();  // destroy began
    CHECK(rserve_engine_complete(host.engine, token, RSERVE_STATUS_OK, nullptr, 0, nullptr) ==
          RSERVE_STATUS_OK);
  });
  rserve_engine_destroy(host.engine);
  other.join();
  CHECK(host.destroyed == 1);
}

TEST_CASE("What cannot become an engine over callbacks is named, and the context is destroyed") {
  Host host;
  rserve_host_config config = SmallConfig();
  config.prepare_lanes = 1;
  CHECK(host.Create(config) == "INVALID_ARGUMENT: executor::prepare is NULL");
  CHECK(host.destroyed == 1);
  config = SmallConfig();
  config.token_budget = -1;
  CHECK(host.Create(config) ==
        "INVALID_ARGUMENT: policy.token_budget is -1; it must be at least 1");
  CHECK(host.destroyed == 2);
  rserve_executor e = host.callbacks();
  e.forward = nullptr;
  config = SmallConfig();
  CHECK(rserve_engine_create_with_executor(&config, &e, nullptr, &host.engine, nullptr) ==
        RSERVE_STATUS_INVALID_ARGUMENT);
  CHECK(host.destroyed == 3);
  CHECK(rserve_engine_create_with_executor(&config, nullptr, nullptr, &host.engine, nullptr) ==
        RSERVE_STATUS_INVALID_ARGUMENT);
}

TEST_CASE("Calls about a checkpoint are refused by an engine that has none") {
  Host host;
  REQUIRE(host.Create(SmallConfig()) == "OK");
  rserve_request request = RSERVE_REQUEST_INIT;
  uint64_t id = 0;
  rserve_error* err = nullptr;
  CHECK(Text(rserve_engine_submit(host.engine, &request, &id, &err), &err) ==
        "FAILED_PRECONDITION: the engine runs the host's own executor; this call needs one made "
        "from a checkpoint");
  rserve_model_info info = RSERVE_MODEL_INFO_INIT;
  CHECK(rserve_engine_get_model_info(host.engine, &info, nullptr) ==
        RSERVE_STATUS_FAILED_PRECONDITION);
  rserve_engine_destroy(host.engine);
}

}  // namespace
