#include "src/runtime/model/buffer_pool.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "tests/support/catch.h"

namespace rserve::runtime {
namespace {

TEST_CASE("a buffer is aligned, writable and used again for its own size") {
  BufferPool pool("x_bytes", 1 << 20);
  float* first = nullptr;
  {
    PooledBuffer buffer = *pool.Take(1000);
    first = buffer.data();
    CHECK(reinterpret_cast<uintptr_t>(first) % kBufferAlignment == 0);
    for (int64_t i = 0; i < buffer.size(); ++i) buffer.data()[i] = 1;
    CHECK(pool.loaned_bytes() == 4000);
  }
  CHECK(pool.loaned_bytes() == 0);
  const PooledBuffer other = *pool.Take(999);
  const PooledBuffer again = *pool.Take(1000);
  CHECK(again.data() == first);
  CHECK(pool.allocations() == 2);
}

TEST_CASE("loaned and idle memory together stay within the capacity") {
  BufferPool pool("x_bytes", 4000);
  for (int round = 0; round < 50; ++round) {
    CAPTURE(round);
    std::vector<PooledBuffer> loans;
    int64_t left = 1000;
    for (int64_t size = 1 + round * 7 % 300; size <= left; size = 1 + size * 13 % 400) {
      loans.push_back(*pool.Take(size));
      left -= size;
    }
    CHECK(pool.loaned_bytes() <= 4000);
  }
  CHECK(pool.peak_bytes() <= 4000);
}

TEST_CASE("a loan over the capacity is given and not kept") {
  BufferPool pool("x_bytes", 100);
  { const PooledBuffer big = *pool.Take(1000); }
  { const PooledBuffer again = *pool.Take(1000); }
  CHECK(pool.allocations() == 2);
}

TEST_CASE("moving a buffer moves the loan") {
  BufferPool pool("x_bytes", 1 << 20);
  PooledBuffer a = *pool.Take(10);
  PooledBuffer b = *pool.Take(20);
  b = std::move(a);
  CHECK(pool.loaned_bytes() == 40);
  CHECK_FALSE(static_cast<bool>(a));  // NOLINT(bugprone-use-after-move): its state is defined
  b.Reset();
  b.Reset();
  CHECK(pool.loaned_bytes() == 0);
}

TEST_CASE("an impossible size is a status with the option's name") {
  BufferPool pool("x_bytes", 1 << 20);
  CHECK(pool.Take(0).status().code() == absl::StatusCode::kInternal);
  CHECK(pool.Take(INT64_MAX).status().code() == absl::StatusCode::kInternal);
  CHECK(pool.loaned_bytes() == 0);
}

}  // namespace
}  // namespace rserve::runtime
