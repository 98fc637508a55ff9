#include "src/runtime/model/placement.h"

#include <cstdint>
#include <set>
#include <vector>

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
