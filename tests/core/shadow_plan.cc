#include "tests/core/shadow_plan.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace rserve::test {

ShadowPlan::ShadowPlan(RequestPlan plan) : plan_(std::move(plan)) {
  const int32_t units = num_units();
  first_read_.assign(units, INT64_MAX);
  end_read_.assign(units, 0);
  for (size_t s = 0; s < plan_.spans.size(); ++s) {
    const SpanPlan& span = plan_.spans[s];
    any_atomic_ |= span.atomic;
    int64_t unit_begin = 0;  // in rows of the item
    for (int32_t u = 0; u < units; ++u) {
      const UnitPlan& unit = plan_.units[u];
      if (unit.item != span.item) continue;
      const int64_t begin = std::max(unit_begin, span.row_begin);
      const int64_t end = std::min(unit_begin + unit.tokens, span.row_begin + span.tokens);
      if (begin < end) {
        const Piece piece = {.begin = span.token_begin + (begin - span.row_begin),
                             .tokens = end - begin,
                             .unit = u,
                             .row_begin = begin - unit_begin,
                             .span = static_cast<int32_t>(s)};
        pieces_.push_back(piece);
        // An atomic span is read as one: each of its units from its first token to its last.
        const int64_t first = span.atomic ? span.token_begin : piece.begin;
        const int64_t last = span.atomic ? span.token_begin + span.tokens : piece.end();
        first_read_[u] = std::min(first_read_[u], first);
        end_read_[u] = std::max(end_read_[u], last);
      }
      unit_begin += unit.tokens;
    }
  }
  // Within an atomic span all units are needed at once; the piece decides the order among them.
  std::vector<int64_t> first_piece(units, INT64_MAX);
  for (const Piece& piece : pieces_) {
    first_piece[piece.unit] = std::min(first_piece[piece.unit], piece.begin);
  }
  prompt_order_.resize(units);
  std::iota(prompt_order_.begin(), prompt_order_.end(), 0);
  std::stable_sort(prompt_order_.begin(), prompt_order_.end(),
                   [&](int32_t a, int32_t b) { return first_piece[a] < first_piece[b]; });
  rank_.resize(units);
  for (int32_t i = 0; i < units; ++i) rank_[prompt_order_[i]] = i;
}

int64_t ShadowPlan::FrontierOf(const std::vector<bool>& encoded, int64_t skipped) const {
  for (const Piece& piece : pieces_) {
    if (encoded[piece.unit] || piece.end() <= skipped) continue;
    const SpanPlan& span = plan_.spans[piece.span];
    return std::max(skipped, span.atomic ? span.token_begin : piece.begin);
  }
  return plan_.prompt_tokens;
}

bool ShadowPlan::CutsAtomic(int64_t token) const {
  if (!any_atomic_) return false;
  for (const SpanPlan& span : plan_.spans) {
    if (span.atomic && span.token_begin < token && token < span.token_begin + span.tokens) {
      return true;
    }
  }
  return false;
}

int64_t ShadowPlan::LargestChunk(int64_t begin, int64_t limit, int64_t frontier) const {
  const int64_t end = std::min(frontier, limit > frontier - begin ? frontier : begin + limit);
  if (end <= begin) return 0;
  if (any_atomic_) {
    for (const SpanPlan& span : plan_.spans) {
      if (span.atomic && span.token_begin < end && end < span.token_begin + span.tokens) {
        return std::max<int64_t>(0, span.token_begin - begin);
      }
    }
  }
  return end - begin;
}

size_t ShadowPlan::FirstPieceAfter(int64_t token) const {
  size_t i = 0;
  while (i < pieces_.size() && pieces_[i].end() <= token) ++i;
  return i;
}

bool ShadowPlan::Reads(int64_t begin, int64_t tokens, int32_t unit) const {
  for (size_t i = FirstPieceAfter(begin); i < pieces_.size(); ++i) {
    if (pieces_[i].begin >= begin + tokens) return false;
    if (pieces_[i].unit == unit) return true;
  }
  return false;
}

bool ShadowPlan::SlicesMatch(int64_t begin, int64_t tokens,
                             absl::Span<const EmbeddingSlice> slices) const {
  size_t i = FirstPieceAfter(begin);
  int64_t at = begin;  // everything before it is accounted for
  const int64_t end = begin + tokens;
  for (const EmbeddingSlice& slice : slices) {
    if (slice.tokens < 1) return false;
    int64_t token = slice.token_begin;
    int64_t row = slice.row_begin;
    int64_t left = slice.tokens;
    while (left > 0) {
      while (i < pieces_.size() && pieces_[i].end() <= at) ++i;
      if (i == pieces_.size()) return false;
      const Piece& piece = pieces_[i];
      const int64_t from = std::max(at, piece.begin);
      if (token != from || slice.unit != piece.unit ||
          row != piece.row_begin + (from - piece.begin)) {
        return false;
      }
      const int64_t count = std::min(left, piece.end() - from);
      if (from + count > end) return false;
      token += count, row += count, left -= count;
      at = from + count;
    }
  }
  while (i < pieces_.size() && pieces_[i].end() <= at) ++i;
  return i == pieces_.size() || std::max(at, pieces_[i].begin) >= end;
}

}  // namespace rserve::test
