#include "rserve/cc/kv_block_pool.h"

#include <cstdint>
#include <cstring>
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

KvBlockKey Key(uint64_t number) {
  KvBlockKey key = {};
  std::memcpy(key.data(), &number, sizeof(number));
  return key;
}

TEST_CASE("a published block outlives its table, and is shared until it is given out anew") {
  KvBlockPool pool(4, 16);
  std::vector<int32_t> a, b, c;
  REQUIRE(pool.Allocate(3, &a));
  const std::vector<KvBlockKey> keys = {Key(1), Key(2), Key(3)};
  pool.Publish(a[0], keys[0]);
  pool.Publish(a[1], keys[1]);
  CHECK(pool.Match(keys, 4) == 2);
  CHECK(pool.Match(keys, 1) == 1);  // no more may be held
  // In use by another, then by nobody.
  pool.Hold(absl::MakeConstSpan(keys).subspan(0, 2), &b);
  CHECK(b == std::vector<int32_t>{a[0], a[1]});
  CHECK(pool.held_blocks() == 2);
  CHECK(pool.used_blocks() == 3);
  pool.EndHold(b);
  CHECK(pool.held_blocks() == 0);
  pool.Free(&a);
  CHECK(pool.used_blocks() == 2);
  CHECK(pool.cached_blocks() == 0);
  pool.Free(&b);
  CHECK(pool.used_blocks() == 0);
  CHECK(pool.cached_blocks() == 2);
  CHECK(pool.free_blocks() == 4);
  // The end of a prompt goes before its beginning.
  REQUIRE(pool.Allocate(3, &c));
  CHECK(pool.evictions() == 1);
  CHECK(pool.Match(keys, 4) == 1);
  std::vector<int32_t> d;
  CHECK_FALSE(pool.Allocate(2, &d));
  REQUIRE(pool.Allocate(1, &d));
  CHECK(pool.Match(keys, 4) == 0);
}

TEST_CASE("the block that was published first under a key stays the one that is found") {
  KvBlockPool pool(2, 1);
  std::vector<int32_t> a, b, c;
  REQUIRE(pool.Allocate(1, &a));
  REQUIRE(pool.Allocate(1, &b));
  const std::vector<KvBlockKey> keys = {Key(7)};
  const int32_t first = a[0];
  pool.Publish(a[0], keys[0]);
  pool.Publish(b[0], keys[0]);
  pool.Free(&b);
  CHECK(pool.cached_blocks() == 0);
  pool.Free(&a);
  CHECK(pool.cached_blocks() == 1);
  pool.Hold(keys, &c);
  CHECK(c == std::vector<int32_t>{first});
}

TEST_CASE("whatever is shared, held and evicted, every block is somewhere and none is lost") {
  constexpr int32_t kBlocks = 24;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    CAPTURE(seed);
    Rng rng(seed);
    KvBlockPool pool(kBlocks, 8);
    struct Table {
      std::vector<int32_t> blocks;
      std::vector<KvBlockKey> keys;
      size_t shared = 0;
      bool held = false;
    };
    std::vector<Table> tables(6);
    for (int32_t step = 0; step < 300; ++step) {
      Table& table = tables[rng.In(0, 5)];
      if (!table.blocks.empty() || table.held) {
        if (table.held) pool.EndHold(table.blocks);
        for (size_t i = table.shared; i < table.blocks.size() && !table.held; ++i) {
          if (i < table.keys.size()) pool.Publish(table.blocks[i], table.keys[i]);
        }
        pool.Free(&table.blocks);
        table = Table();
      } else {
        // One of a few prompts, each the beginning of a longer one.
        const uint64_t prompt = static_cast<uint64_t>(rng.In(1, 3));
        for (uint64_t i = 0; i < static_cast<uint64_t>(rng.In(1, 6)); ++i) {
          table.keys.push_back(Key(prompt * 100 + i));
        }
        const int64_t matched = pool.Match(table.keys, rng.In(0, 8));
        pool.Hold(absl::MakeConstSpan(table.keys).subspan(0, static_cast<size_t>(matched)),
                  &table.blocks);
        table.shared = static_cast<size_t>(matched);
        table.held = true;
        const int64_t more = static_cast<int64_t>(table.keys.size()) - matched + 1;
        if (rng.Percent(80) && pool.CanAllocate(more)) {
          pool.EndHold(table.blocks);
          REQUIRE(pool.Allocate(more, &table.blocks));
          table.held = false;
        }
      }
      std::set<int32_t> used, held;
      for (const Table& other : tables) {
        used.insert(other.blocks.begin(), other.blocks.end());
        if (other.held) held.insert(other.blocks.begin(), other.blocks.end());
      }
      REQUIRE(pool.used_blocks() == static_cast<int64_t>(used.size()));
      REQUIRE(pool.held_blocks() == static_cast<int64_t>(held.size()));
      REQUIRE(pool.cached_blocks() <= pool.free_blocks());
    }
    for (Table& table : tables) {
      if (table.held) pool.EndHold(table.blocks);
      pool.Free(&table.blocks);
    }
    std::vector<int32_t> all;
    REQUIRE(pool.Allocate(kBlocks, &all));
    CHECK(std::set<int32_t>(all.begin(), all.end()).size() == kBlocks);
  }
}

}  // namespace
}  // namespace rserve::test
