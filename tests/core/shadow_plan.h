// What a plan means, worked out once more and in the simplest way, so that tests do not ask the
// code under test: which unit each prompt token reads, which tokens are ready, what a chunk may be.

#ifndef RSERVE_TESTS_CORE_SHADOW_PLAN_H_
#define RSERVE_TESTS_CORE_SHADOW_PLAN_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "rserve/cc/embedding_tracker.h"
#include "rserve/cc/request_plan.h"

namespace rserve::test {

// Prompt tokens that read neighbouring rows of one unit: a span cut at the bounds of its units.
struct Piece {
  int64_t begin = 0;
  int64_t tokens = 0;
  int32_t unit = 0;
  int64_t row_begin = 0;  // in rows of the unit
  int32_t span = 0;
  int64_t end() const { return begin + tokens; }
};

class ShadowPlan {
 public:
  explicit ShadowPlan(RequestPlan plan);

  const RequestPlan& plan() const { return plan_; }
  const std::vector<Piece>& pieces() const { return pieces_; }
  int32_t num_units() const { return static_cast<int32_t>(plan_.units.size()); }
  // The tokens that read a unit lie in [first_read, end_read).
  int64_t first_read(int32_t unit) const { return first_read_[unit]; }
  int64_t end_read(int32_t unit) const { return end_read_[unit]; }
  // Units by their first reader: the order in which they are needed.
  const std::vector<int32_t>& prompt_order() const { return prompt_order_; }
  int32_t rank(int32_t unit) const { return rank_[unit]; }

  // The first token that must not be taken when only `encoded` units exist: the first one that
  // reads a missing unit, or the begin of its atomic span. Tokens before `skipped` need none.
  int64_t FrontierOf(const std::vector<bool>& encoded, int64_t skipped) const;

  // The largest chunk from `begin` that ends by begin + limit and by `frontier` without cutting an
  // atomic span.
  int64_t LargestChunk(int64_t begin, int64_t limit, int64_t frontier) const;
  // Whether `token` lies inside an atomic span, so that no chunk may begin or end there.
  bool CutsAtomic(int64_t token) const;

  bool Reads(int64_t begin, int64_t tokens, int32_t unit) const;
  // Whether the slices are what the chunk reads; a piece may be given in parts.
  bool SlicesMatch(int64_t begin, int64_t tokens, absl::Span<const EmbeddingSlice> slices) const;

 private:
  size_t FirstPieceAfter(int64_t token) const;  // the first piece that ends behind the token

  RequestPlan plan_;
  std::vector<Piece> pieces_;
  std::vector<int64_t> first_read_, end_read_;
  std::vector<int32_t> prompt_order_, rank_;
  bool any_atomic_ = false;
};

}  // namespace rserve::test

#endif  // RSERVE_TESTS_CORE_SHADOW_PLAN_H_
