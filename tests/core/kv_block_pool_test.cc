#include "rserve/cc/kv_block_pool.h"

#include <cstdint>
#include <set>
#include <vector>

#include "tests/core/rng.h"
#include "tests/support/catch.h"

namespace rserve::test {
namespace {

TEST_CASE("tokens are rounded up to blocks without overflow") {
  const KvBlockPool pool(10, 16);
  const int64_t cases[][2] = {{0, 0}, {1, 1}, {15, 1}, {16, 1}, {17, 2}, {160, 10}, {161, 11}};
  for (const auto& [tokens, blocks] : cases) CHECK(pool.BlocksFor(tokens) == blocks);
  CHECK(pool.BlocksFor(INT64_MAX) == INT64_MAX / 16 + 1);
}

TEST_CASE("an allocation takes all or nothing") {
  KvBlockPool pool(5, 4);
  std::vector<int32_t> a, b;
  REQUIRE(pool.Allocate(3, &a));
  CHECK(pool.free_blocks() == 2);
  CHECK_FALSE(pool.CanAllocate(3));
  CHECK_FALSE(pool.Allocate(3, &b));
  CHECK(b.empty());
  CHECK(pool.free_blocks() == 2);
  REQUIRE(pool.Allocate(2, &b));
  CHECK(pool.used_blocks() == 5);
  pool.Free(&a);
  CHECK(a.empty());
  CHECK(pool.used_blocks() == 2);
  CHECK(pool.peak_used_blocks() == 5);
  CHECK(pool.Allocate(0, &a));
}

TEST_CASE("a pool of no blocks refuses everything but nothing") {
  KvBlockPool pool(0, 1);
  std::vector<int32_t> table;
  CHECK_FALSE(pool.CanAllocate(1));
  CHECK_FALSE(pool.Allocate(1, &table));
  CHECK(pool.Allocate(0, &table));
}

TEST_CASE("no block is in two tables, and the same calls give the same tables") {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    CAPTURE(seed);
    Rng rng(seed);
    KvBlockPool pool(40, 8), twin(40, 8);
    std::vector<std::vector<int32_t>> tables(8), twins(8);
    for (int32_t step = 0; step < 200; ++step) {
      const int64_t i = rng.In(0, 7);
      if (rng.Percent(40)) {
        pool.Free(&tables[i]);
        twin.Free(&twins[i]);
      } else {
        const int64_t blocks = rng.In(0, 9);
        REQUIRE(pool.Allocate(blocks, &tables[i]) == twin.Allocate(blocks, &twins[i]));
      }
      REQUIRE(tables == twins);
      std::set<int32_t> used;
      int64_t count = 0;
      for (const auto& table : tables) {
        count += static_cast<int64_t>(table.size());
        for (const int32_t block : table) {
          REQUIRE(used.insert(block).second);
          REQUIRE((block >= 0 && block < 40));
        }
      }
      REQUIRE(pool.used_blocks() == count);
    }
  }
}

}  // namespace
}  // namespace rserve::test
