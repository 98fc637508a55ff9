#include "src/backend/cpu/thread_pool.h"

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "tests/support/catch.h"

namespace rserve::cpu {
namespace {

TEST_CASE("every task runs once, for every thread count and task count") {
  for (int threads = 1; threads <= 5; ++threads) {
    ThreadPool pool(threads, {});
    CHECK(pool.threads() == threads);
    for (int64_t tasks : {0, 1, 2, 3, 7, 100, 1000}) {
      CAPTURE(threads, tasks);
      std::vector<int> runs(static_cast<size_t>(tasks), 0);  // a data race if a task ran twice
      pool.ParallelFor(tasks, [&](int64_t task) { ++runs[static_cast<size_t>(task)]; });
      bool once = true;
      for (int count : runs) once &= count == 1;
      CHECK(once);
    }
  }
}

TEST_CASE("what one job wrote is seen by the next, many jobs in a row") {
  ThreadPool pool(3, {0});
  std::vector<int64_t> values(17, 0);
  constexpr int kJobs = 5000;
  for (int job = 0; job < kJobs; ++job) {
    const size_t shift = static_cast<size_t>(job % 17);
    pool.ParallelFor(
        17, [&](int64_t task) { values[(static_cast<size_t>(task) + shift) % 17] += task; });
  }
  int64_t sum = 0;
  for (int64_t value : values) sum += value;
  CHECK(sum == int64_t{kJobs} * 16 * 17 / 2);
}

TEST_CASE("a pool may be used by different threads, one after the other") {
  ThreadPool pool(2, {});
  std::atomic<int> runs{0};
  for (int i = 0; i < 20; ++i) {
    std::thread([&] { pool.ParallelFor(8, [&](int64_t) { runs.fetch_add(1); }); }).join();
  }
  CHECK(runs.load() == 160);
}

TEST_CASE("pools of several workers run side by side") {
  std::vector<std::thread> workers;
  std::atomic<int64_t> sum{0};
  for (int w = 0; w < 3; ++w) {
    workers.emplace_back([&] {
      ThreadPool pool(2, {});
      for (int job = 0; job < 200; ++job) {
        pool.ParallelFor(10, [&](int64_t task) { sum.fetch_add(task); });
      }
    });
  }
  for (std::thread& worker : workers) worker.join();
  CHECK(sum.load() == 3 * 200 * 45);
}

TEST_CASE("pools are made and destroyed without any job, also with cores that do not exist") {
  for (int i = 0; i < 50; ++i) ThreadPool pool(4, {-1, 100000, 1023});
}

}  // namespace
}  // namespace rserve::cpu
