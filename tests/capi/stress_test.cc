// 64 threads that submit, cancel, plan, acknowledge and ask, against one that polls. What must hold
// whatever they do to each other: a submit that was accepted gets exactly one terminal event, one
// that was refused gets none, and in the end nothing is held.
//
// The short run belongs to every test run, under the sanitizers too; "[.soak]" is the same for a
// minute.

#include <poll.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "tests/capi/c_fixture.h"

namespace rserve::testing {
namespace {

constexpr int kThreads = 64;
constexpr int kSide = 16;

std::vector<uint8_t> Pixels() {
  std::vector<uint8_t> pixels(kSide * kSide * 3);
  for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<uint8_t>(i * 37 % 251);
  return pixels;
}

// Requests that have ended and wait for somebody to acknowledge them.
class Ended {
 public:
  void Push(uint64_t id) {
    std::lock_guard<std::mutex> lock(mu_);
    ids_.push_back(id);
  }
  std::optional<uint64_t> Pop() {
    std::lock_guard<std::mutex> lock(mu_);
    if (ids_.empty()) return std::nullopt;
    const uint64_t id = ids_.front();
    ids_.pop_front();
    return id;
  }

 private:
  std::mutex mu_;
  std::deque<uint64_t> ids_;
};

// What one run sees. Checks happen on the main thread only, after the threads are joined.
struct Run {
  rserve_engine* engine = nullptr;
  std::vector<uint8_t> pixels = Pixels();
  std::vector<uint8_t> corrupt = {0x89, 'P', 'N', 'G', 13, 10, 26, 10, 0, 0, 0, 13};
  Ended ended;
  std::atomic<uint64_t> latest{0};  // an id to cancel that is somebody else's
  std::atomic<int64_t> accepted{0}, refused{0}, malformed{0}, wrong{0};
  std::atomic<bool> submitting{true};
  std::mutex mu;
  std::set<uint64_t> accepted_ids;
};

void Acknowledge(Run& run, uint64_t id) {
  rserve_detail* detail = nullptr;
  if (rserve_request_detail(run.engine, id, &detail, nullptr) == RSERVE_STATUS_OK) {
    rserve_detail_info info = RSERVE_DETAIL_INFO_INIT;
    if (rserve_detail_get_info(detail, &info, nullptr) != RSERVE_STATUS_OK ||
        info.request_id != id || info.ended_ns == 0) {
      ++run.wrong;
    }
    rserve_detail_destroy(detail);
  } else {
    ++run.wrong;  // it is kept until it is acknowledged, and only this thread took its id
  }
  if (rserve_engine_acknowledge(run.engine, id, nullptr) != RSERVE_STATUS_OK) ++run.wrong;
}

void SubmitOne(Run& run, std::mt19937& random) {
  std::vector<rserve_part> parts;
  const uint32_t pictures = random() % 3;
  for (uint32_t i = 0; i < pictures; ++i) {
    rserve_part part = {};
    part.type = RSERVE_PART_PIXELS;
    part.flags = random() % 2 == 0 ? RSERVE_PART_F_BORROW : 0;
    part.data = run.pixels.data();
    part.count = run.pixels.size();
    part.width = part.height = kSide;
    parts.push_back(part);
  }
  const bool corrupt = random() % 16 == 0;
  if (corrupt) parts.push_back(ImagePart(run.corrupt));
  parts.push_back(TextPart("What is it?"));
  rserve_request request = RequestOf(parts);
  const bool detail = random() % 2 == 0;
  if (!detail) request.flags |= RSERVE_REQUEST_F_NO_DETAIL;
  request.user_data = detail ? 1 : 0;
  if (random() % 8 == 0) request.timeout_ns = 1 + random() % 2000000;
  uint64_t id = 0;
  const rserve_status_t status = rserve_engine_submit(run.engine, &request, &id, nullptr);
  if (status == RSERVE_STATUS_OK) {
    ++run.accepted;
    if (corrupt) ++run.wrong;
    {
      std::lock_guard<std::mutex> lock(run.mu);
      run.accepted_ids.insert(id);
    }
    const uint64_t other = run.latest.exchange(id);
    if (random() % 4 == 0) rserve_engine_cancel(run.engine, id, nullptr);
    if (random() % 8 == 0 && other != 0) rserve_engine_cancel(run.engine, other, nullptr);
  } else if (corrupt && status == RSERVE_STATUS_INVALID_ARGUMENT) {
    ++run.malformed;
  } else if (status == RSERVE_STATUS_RESOURCE_EXHAUSTED) {
    ++run.refused;
  } else {
    ++run.wrong;
  }
}

void AskOne(Run& run, std::mt19937& random) {
  if (random() % 2 == 0) {
    rserve_stats stats = RSERVE_STATS_INIT;
    if (rserve_engine_get_stats(run.engine, &stats, nullptr) != RSERVE_STATUS_OK) ++run.wrong;
    return;
  }
  const std::vector<rserve_part> parts = {TextPart("What is it?")};
  const rserve_request request = RequestOf(parts);
  rserve_plan* plan = nullptr;
  if (rserve_engine_plan(run.engine, &request, &plan, nullptr) != RSERVE_STATUS_OK) ++run.wrong;
  rserve_plan_destroy(plan);
}

void Host(Run& run, uint32_t seed, int iterations) {
  std::mt19937 random(seed);
  for (int i = 0; i < iterations; ++i) {
    switch (random() % 4) {
      case 0:
        AskOne(run, random);
        break;
      case 1:
        if (const auto id = run.ended.Pop(); id.has_value()) Acknowledge(run, *id);
        break;
      default:
        SubmitOne(run, random);
    }
  }
}

// Terminal events by request, until nobody submits and all that was accepted has ended.
std::map<uint64_t, int> PollAll(Run& run) {
  std::map<uint64_t, int> terminals;
  int64_t ended = 0;
  while (run.submitting.load() || ended < run.accepted.load()) {
    pollfd wait = {rserve_engine_wait_fd(run.engine), POLLIN, 0};
    poll(&wait, 1, 20);  // short, because the last submit may be refused: no event tells of it
    rserve_event events[32];
    size_t count = 0;
    if (rserve_engine_poll(run.engine, events, 32, sizeof(rserve_event), &count, nullptr) !=
        RSERVE_STATUS_OK) {
      ++run.wrong;
    }
    for (size_t i = 0; i < count; ++i) {
      if ((events[i].flags & RSERVE_EVENT_F_MORE) != 0) continue;
      ++ended;
      ++terminals[events[i].request_id];
      if (events[i].user_data == 1) run.ended.Push(events[i].request_id);
    }
  }
  return terminals;
}

void Stress(int iterations) {
  constexpr uint32_t kSeed = 20261130;
  CAPTURE(kSeed, iterations);
  rserve_engine_config config = TinyConfig();
  config.stages = 2;
  config.token_budget = 16;
  config.queue_requests = 48;
  config.embedding_bytes = 1 << 16;
  const EnginePtr engine = MustCreate(config);
  Run run;
  run.engine = engine.get();
  std::map<uint64_t, int> terminals;
  std::thread poller([&] { terminals = PollAll(run); });
  {
    std::vector<std::thread> hosts;
    for (int t = 0; t < kThreads - 1; ++t) {
      hosts.emplace_back(Host, std::ref(run), kSeed + static_cast<uint32_t>(t), iterations);
    }
    for (std::thread& host : hosts) host.join();
  }
  run.submitting.store(false);
  poller.join();
  while (const auto id = run.ended.Pop()) Acknowledge(run, *id);

  CHECK(run.wrong.load() == 0);
  CHECK(run.accepted.load() > 0);
  CHECK(run.refused.load() > 0);
  CHECK(run.malformed.load() > 0);
  CHECK(terminals.size() == run.accepted_ids.size());
  CHECK(std::all_of(terminals.begin(), terminals.end(), [&](const auto& entry) {
    return entry.second == 1 && run.accepted_ids.contains(entry.first);
  }));
  rserve_stats stats = RSERVE_STATS_INIT;
  REQUIRE(rserve_engine_get_stats(engine.get(), &stats, nullptr) == RSERVE_STATUS_OK);
  CHECK(stats.accepted == run.accepted.load());
  CHECK(stats.finished + stats.failed + stats.cancelled == stats.accepted);
  CHECK(stats.open_requests == 0);
  CHECK(stats.input_bytes == 0);
}

TEST_CASE("64 threads on one engine: each accepted request ends once and nothing is held") {
  Stress(12);
}

TEST_CASE("64 threads on one engine after another for a minute", "[.soak]") {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  do {
    Stress(50);
  } while (std::chrono::steady_clock::now() < end);
}

}  // namespace
}  // namespace rserve::testing
