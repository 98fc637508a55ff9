#include "src/runtime/model/placement.h"

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "src/runtime/model/placement_choice.h"
#include "tests/engine/harness.h"
#include "tests/support/catch.h"

namespace rserve::runtime {
namespace {

std::vector<WorkerInfo> Place(const ModelEngineOptions& options, const std::vector<int>& usable) {
  const auto layers = SplitLayers(options, 8);
  REQUIRE(layers.ok());
  const auto workers = PlaceWorkers(options, *layers, usable);
  INFO(workers.status().ToString());
  REQUIRE(workers.ok());
  return *workers;
}

TEST_CASE("layers are split evenly, the first stages one more, or as told") {
  ModelEngineOptions options;
  options.stages = 3;
  auto split = SplitLayers(options, 8);
  REQUIRE(split.ok());
  CHECK((*split)[0].count == 3);
  CHECK((*split)[1].first == 3);
  CHECK((*split)[1].count == 3);
  CHECK((*split)[2].first == 6);
  CHECK((*split)[2].count == 2);
  options.stage_layers = {1, 6, 1};
  split = SplitLayers(options, 8);
  REQUIRE(split.ok());
  CHECK((*split)[2].first == 7);
  const std::vector<std::vector<int32_t>> wrong = {
      {1, 6}, {1, 6, 2}, {1, 5, 1}, {0, 7, 1}, {9, -1, 0}, {INT32_MAX, INT32_MAX, 10}};
  for (const std::vector<int32_t>& layers : wrong) {
    options.stage_layers = layers;
    CHECK(SplitLayers(options, 8).status().code() == absl::StatusCode::kInvalidArgument);
  }
}

TEST_CASE("cores are dealt out whole, each to one worker") {
  ModelEngineOptions options;
  options.stages = 2;
  options.encoders = 1;
  for (int cores = 3; cores < 12; ++cores) {
    std::vector<int> usable;
    for (int i = 0; i < cores; ++i) usable.push_back(10 + i);
    std::multiset<int> dealt;
    for (const WorkerInfo& worker : Place(options, usable)) {
      CHECK(worker.threads == static_cast<int32_t>(worker.cores.size()));
      CHECK(worker.threads >= cores / 3);
      dealt.insert(worker.cores.begin(), worker.cores.end());
    }
    CHECK(std::multiset<int>(usable.begin(), usable.end()) == dealt);
  }
}

TEST_CASE("with fewer cores than workers nothing is pinned and each has a thread") {
  ModelEngineOptions options;
  options.stages = 4;
  for (const WorkerInfo& worker : Place(options, {0, 1})) {
    CHECK(worker.threads == 1);
    CHECK(worker.cores.empty());
  }
}

TEST_CASE("a shared worker has all cores") {
  ModelEngineOptions options;
  options.scheme = Scheme::kColocated;
  const auto workers = Place(options, {0, 1, 2});
  REQUIRE(workers.size() == 1);
  CHECK(workers[0].threads == 3);
  CHECK(workers[0].spec.encoder);
  CHECK(workers[0].num_layers == 8);
}

TEST_CASE("an adaptive engine may share stage 0's worker, which then has the first cores") {
  ModelEngineOptions options;
  options.scheme = Scheme::kAdaptive;
  options.encoders = kSharedEncoder;
  options.stages = 2;
  options.stage_layers = {1, 7};
  const auto workers = Place(options, {0, 1, 2});
  REQUIRE(workers.size() == 2);
  CHECK(workers[0].spec.encoder);
  CHECK(workers[0].spec.first == Role::kStage);
  CHECK(workers[0].num_layers == 1);
  CHECK(workers[0].threads == 2);
  CHECK_FALSE(workers[1].spec.encoder);
}

TEST_CASE("sharing is chosen where it can lose less") {
  CHECK(SharingLosesLess({0.5, 0.5}));  // cores scale: it never loses
  CHECK(SharingLosesLess({0.7, 0.7}));  // 1.4 at worst against 1.43
  CHECK_FALSE(SharingLosesLess({0.75, 0.75}));
  CHECK_FALSE(SharingLosesLess({1, 1}));  // more cores do not help
  CHECK(SharingLosesLess({0.9, 0.55}));   // splitting would double nearly all of the prefill
}

TEST_CASE("a least time is believed once it has come twice, however many were disturbed") {
  LeastTime time;
  CHECK_FALSE(time.confirmed());
  time.Add(1900);
  CHECK_FALSE(time.confirmed());
  time.Add(1000);
  time.Add(2500);
  CHECK_FALSE(time.confirmed());
  time.Add(1100);
  CHECK_FALSE(time.confirmed());  // the second least is a tenth more
  CHECK(time.ns() == 1000);
  time.Add(1020);
  CHECK(time.confirmed());
  CHECK(time.ns() == 1000);
  time.Add(900);  // a new least has to come twice again
  CHECK_FALSE(time.confirmed());
  time.Add(900);
  CHECK(time.confirmed());
  CHECK(time.ns() == 900);
}

TEST_CASE("what the options say needs no measuring") {
  ModelEngineOptions options;
  options.scheme = Scheme::kRserve;
  CHECK(EncodersWithoutMeasuring(options, {0, 1}) == 0);
  options.scheme = Scheme::kAdaptive;
  CHECK(EncodersWithoutMeasuring(options, {0, 1}) == std::nullopt);
  CHECK(EncodersWithoutMeasuring(options, {0}) == kSharedEncoder);
  options.threads = 1;
  CHECK(EncodersWithoutMeasuring(options, {0, 1}) == kSharedEncoder);
  options.threads = 0;
  options.worker_threads = {2};
  CHECK(EncodersWithoutMeasuring(options, {0, 1}) == kSharedEncoder);
  options.worker_threads = {1, 1};
  CHECK(EncodersWithoutMeasuring(options, {0, 1}) == 1);
  options.worker_threads.clear();
  options.stages = 2;
  CHECK(EncodersWithoutMeasuring(options, {0, 1}) == 1);
  options.encoders = 3;
  CHECK(EncodersWithoutMeasuring(options, {0, 1}) == 3);
}

TEST_CASE("an adaptive engine has its policy and measures where the encoder goes") {
  ModelEngineOptions options = testing::TinyOptions();
  options.scheme = Scheme::kAdaptive;
  options.threads = 2;
  std::string log;
  options.log = [&](int32_t, const std::string& text) { log += text + "\n"; };
  options.order_stretch = 12;
  options.order_guard_ns = 400'000'000'000;
  const auto engine = testing::MustCreate(options);
  CHECK(log.find("of the time on half of them") != std::string::npos);
  const OrchestratorConfig& core = engine->info().core;
  CHECK(core.policy.order == Order::kShortestFirst);
  CHECK(core.policy.order_stretch == 12);
  CHECK(core.policy.order_guard_ns == 400'000'000'000);
  CHECK(core.policy.square_root_budget);
  CHECK(core.policy.adaptive_encode_batch);
  CHECK(core.policy.encode_across_requests);
  CHECK(core.max_micro_batches == 2);
  CHECK(engine->info().workers.size() <= 2);

  options.encode_batch_tokens = 64;  // a C that is given stays
  options.square_root_budget = false;
  options.encoders = 1;
  const auto fixed = testing::MustCreate(options);
  CHECK_FALSE(fixed->info().core.policy.adaptive_encode_batch);
  CHECK_FALSE(fixed->info().core.policy.square_root_budget);
  CHECK(fixed->info().topology == "TP1+E1");
}

TEST_CASE("threads, pinning and lists of cores are as told") {
  ModelEngineOptions options;
  options.threads = 2;
  auto workers = Place(options, {4, 5, 6});
  CHECK(workers[0].cores == std::vector<int>{4});
  CHECK(workers[1].cores == std::vector<int>{5});
  options.pin_threads = false;
  options.threads = 5;
  workers = Place(options, {4, 5, 6});
  CHECK(workers[0].cores.empty());
  CHECK(workers[0].threads == 3);
  options.worker_cores = {{6, 4}, {}};
  workers = Place(options, {4, 5, 6});
  CHECK(workers[0].cores == std::vector<int>{6, 4});
  CHECK(workers[0].threads == 2);
  CHECK(workers[1].threads == 1);
  options.worker_threads = {7, 8};
  workers = Place(options, {4, 5, 6});
  CHECK(workers[0].threads == 7);
  CHECK(workers[1].threads == 8);
}

}  // namespace
}  // namespace rserve::runtime
