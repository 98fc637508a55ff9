// Rows on loan: whose they are, and that enough of them are always found.

#include "src/backend/plan/row_store.h"

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "tests/support/catch.h"

namespace rserve::backend {
namespace {

TEST_CASE("row store: rows are nobody else's, and found as long as enough are free") {
  constexpr int64_t kCapacity = 97;
  std::mt19937 random(20);
  RowStore store(kCapacity);
  std::vector<StoredRows> loans;
  for (int step = 0; step < 4000; ++step) {
    const int64_t rows = 1 + static_cast<int64_t>(random() % 30);
    const int64_t free = kCapacity - store.taken();
    StoredRows got = store.Take(rows);
    REQUIRE(static_cast<bool>(got) == (rows <= free));
    if (got) {
      CHECK(got.rows() == rows);
      loans.push_back(std::move(got));
    }
    if (!loans.empty() && random() % 2 == 0) {
      const size_t i = random() % loans.size();
      std::swap(loans[i], loans.back());
      loans.pop_back();
    }
    std::vector<int> owners(kCapacity, 0);
    int64_t taken = 0;
    for (const StoredRows& loan : loans) {
      int64_t sum = 0;
      for (const RowRun& run : loan.runs()) {
        REQUIRE(run.rows > 0);
        REQUIRE(run.begin >= 0);
        REQUIRE(run.begin + run.rows <= kCapacity);
        sum += run.rows;
        for (int64_t r = run.begin; r < run.begin + run.rows; ++r) ++owners[static_cast<size_t>(r)];
      }
      CHECK(sum == loan.rows());
      taken += sum;
    }
    REQUIRE(*std::max_element(owners.begin(), owners.end()) <= 1);
    REQUIRE(store.taken() == taken);
  }
  CHECK(store.peak() > 80);
  loans.clear();
  CHECK(store.taken() == 0);
  // All gaps have grown together again.
  CHECK(store.Take(kCapacity).runs() == std::vector<RowRun>{{0, kCapacity}});
}

TEST_CASE("row store: a loan's rows are visited by number, in the order of its runs") {
  RowStore store(12);
  StoredRows a = store.Take(2), b = store.Take(3), c = store.Take(2), d = store.Take(5);
  CHECK_FALSE(store.Take(1));
  b.Reset();
  d.Reset();
  CHECK_FALSE(store.Take(0));
  CHECK_FALSE(store.Take(9));
  const StoredRows wide = store.Take(7);
  CHECK(wide.runs() == std::vector<RowRun>{{2, 3}, {7, 4}});
  std::vector<std::pair<int64_t, RowRun>> seen;
  wide.ForEach(1, 4, [&](int64_t row, const RowRun& run) { seen.push_back({row, run}); });
  CHECK(seen == std::vector<std::pair<int64_t, RowRun>>{{1, {3, 2}}, {3, {7, 2}}});
  seen.clear();
  wide.ForEach(7, 0, [&](int64_t row, const RowRun& run) { seen.push_back({row, run}); });
  CHECK(seen.empty());
  StoredRows moved = std::move(a);
  CHECK_FALSE(a);
  CHECK(moved.rows() == 2);
  moved = std::move(c);  // gives back its own
  CHECK(store.taken() == 9);
  moved.Reset();
  moved.Reset();
  CHECK(store.taken() == 7);
}

}  // namespace
}  // namespace rserve::backend
