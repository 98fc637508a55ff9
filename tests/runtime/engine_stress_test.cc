// Many threads against one engine: each accepted request ends exactly once and nothing is left.

#include <atomic>
#include <map>
#include <random>
#include <thread>

#include "src/runtime/timed_executor.h"
#include "tests/runtime/engine_fixture.h"
#include "tests/support/catch.h"

namespace rserve::testing {
namespace {

constexpr int kThreads = 8;
constexpr int kRequestsPerThread = 250;

// What a submitting thread does. Half of the requests are cancelled, some before they can have
// begun and some that are long over.
void SubmitAndCancel(Engine& engine, uint32_t seed, std::atomic<int64_t>& accepted) {
  std::mt19937 random(seed);
  std::vector<RequestId> mine;
  for (int i = 0; i < kRequestsPerThread; ++i) {
    const RequestId id = engine.NewRequestId();
    RequestPlan plan = random() % 2 == 0 ? TextPlan(id, 1 + random() % 30)
                                         : ImagePlan(id, std::vector<int64_t>(1 + random() % 4, 3));
    plan.input_bytes = random() % 50;
    while (!engine.Submit(plan, id + 7).ok()) std::this_thread::yield();  // the queue is full
    ++accepted;
    mine.push_back(id);
    if (random() % 2 == 0) engine.Cancel(mine[random() % mine.size()]).IgnoreError();
  }
}

TEST_CASE("Eight threads submit and cancel 2,000 requests: one terminal event each") {
  const uint32_t seed = 20240607;
  CAPTURE(seed);
  runtime::TimedExecutorOptions timed;
  timed.outcome = [](const runtime::TimedAction& action) {
    // Some fail, by what they are and not by when they run.
    if (!action.units.empty() && action.units[0].request % 31 == 0) {
      return absl::DataLossError("unlucky");
    }
    return absl::OkStatus();
  };
  timed.first_token_outcome = [](RequestId id) {
    return id % 37 == 0 ? absl::InternalError("no token") : absl::OkStatus();
  };
  EngineOptions options = SmallOptions(3);
  options.core.prepare_lanes = 2;
  options.core.budgets.queue_requests = 64;
  options.core.budgets.input_bytes = 2000;
  options.core.budgets.embedding_bytes = 48 * 10;
  options.core.budgets.kv_blocks = 40;
  auto created = Engine::Create(std::move(options),
                                std::make_unique<runtime::TimedExecutor>(std::move(timed)));
  REQUIRE(created.ok());
  Engine& engine = **created;

  std::atomic<int64_t> accepted{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] { SubmitAndCancel(engine, seed + t, accepted); });
  }
  std::map<RequestId, int> ends;
  int64_t wrong = 0;
  int64_t terminal_events = 0;
  while (terminal_events < kThreads * kRequestsPerThread) {
    AwaitReadable(engine.wait_fd());
    std::vector<Event> events;
    engine.Poll(16, &events);
    for (const Event& event : events) {
      if (event.user_data != event.request + 7) ++wrong;
      if (ends[event.request] > 0) ++wrong;  // nothing follows the terminal event
      if (event.type == EventType::kFirstToken &&
          event.first_token.token != runtime::TimedExecutor::FirstTokenOf(event.request).token) {
        ++wrong;
      }
      if (!IsTerminal(event.type)) continue;
      ++ends[event.request];
      ++terminal_events;
    }
  }
  for (std::thread& thread : threads) thread.join();
  while (!engine.idle()) std::this_thread::yield();

  CHECK(wrong == 0);
  CHECK(accepted == kThreads * kRequestsPerThread);
  CHECK(ends.size() == kThreads * kRequestsPerThread);
  std::vector<Event> rest;
  CHECK(engine.Poll(100, &rest) == 0);
  CHECK_FALSE(Readable(engine.wait_fd()));
  const OrchestratorStats stats = engine.stats();
  CHECK(stats.accepted == kThreads * kRequestsPerThread);
  CHECK(stats.finished + stats.failed + stats.cancelled == stats.accepted);
  CHECK(stats.finished > 0);
  CHECK(stats.failed > 0);
  CHECK(stats.open_requests == 0);
  CHECK(stats.lingering_requests == 0);
  CHECK(stats.embedding_bytes == 0);
  CHECK(stats.pixel_bytes == 0);
  CHECK(stats.units_in_flight == 0);
  CHECK(stats.kv_blocks_used == 0);
  CHECK(stats.input_bytes == 0);
  CHECK(stats.stale_tokens == 0);
}

TEST_CASE("Engines are destroyed under load without losing an action") {
  for (uint32_t round = 0; round < 30; ++round) {
    CAPTURE(round);
    EngineOptions options = SmallOptions(2);
    options.core.prepare_lanes = 2;
    auto created =
        Engine::Create(std::move(options),
                       std::make_unique<runtime::TimedExecutor>(runtime::TimedExecutorOptions{}));
    REQUIRE(created.ok());
    for (uint32_t i = 0; i < 20 + round; ++i) {
      REQUIRE((*created)->Submit(ImagePlan((*created)->NewRequestId(), {3, 3}), 0).ok());
    }
    created->reset();
  }
}

}  // namespace
}  // namespace rserve::testing
