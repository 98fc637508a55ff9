#include "tools/rserve/bound.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace rserve::tool {
namespace {

// Prefill on the first stage from the token at `begin` to the end of the prompt.
TimeNs PrefillFrom(const SoloTimes& solo, int64_t begin) {
  double ns = 0;
  for (const SoloTimes::Chunk& chunk : solo.chunks) {
    const int64_t after = chunk.begin + chunk.tokens - std::max(begin, chunk.begin);
    if (after <= 0) continue;
    ns += static_cast<double>(chunk.ns) * static_cast<double>(after) /
          static_cast<double>(chunk.tokens);
  }
  return static_cast<TimeNs>(ns);
}

// Whether any of the span's work is the request's.
bool IsOf(const TraceSpan& span, RequestId request) {
  return std::any_of(span.units.begin(), span.units.end(),
                     [&](const UnitRef& unit) { return unit.request == request; }) ||
         std::any_of(span.entries.begin(), span.entries.end(),
                     [&](const BatchEntry& entry) { return entry.request == request; });
}

}  // namespace

TimeNs SoloTimes::encode_ns() const {
  TimeNs sum = 0;
  for (const Item& item : items) sum += item.encode_ns;
  return sum;
}

TimeNs SoloTimes::prefill_ns() const { return PrefillFrom(*this, 0) + tail_ns; }

absl::StatusOr<SoloTimes> SoloTimesFromSpans(absl::Span<const TraceSpan> spans, RequestId request,
                                             absl::Span<const int64_t> item_begin,
                                             int64_t prompt_tokens) {
  SoloTimes solo;
  for (const int64_t begin : item_begin) solo.items.push_back({begin, 0});
  TimeNs last_encode_end = 0, first_prefill = kNever;
  uint64_t last_batch = 0;
  for (const TraceSpan& span : spans) {
    if (!IsOf(span, request)) continue;
    if (span.kind == TraceSpan::Kind::kEncode) {
      if (span.units.size() != 1 || static_cast<size_t>(span.units[0].unit) >= solo.items.size()) {
        return absl::FailedPreconditionError(
            absl::StrCat("solo run: an encode batch of ", span.units.size(), " pictures"));
      }
      solo.items[static_cast<size_t>(span.units[0].unit)].encode_ns = span.end_ns - span.begin_ns;
      last_encode_end = std::max(last_encode_end, span.end_ns);
    } else if (span.kind == TraceSpan::Kind::kStage && span.stage == 0) {
      if (span.entries.size() != 1) {
        return absl::FailedPreconditionError(
            absl::StrCat("solo run: a micro-batch of ", span.entries.size(), " requests"));
      }
      const BatchEntry& entry = span.entries[0];
      solo.chunks.push_back({entry.begin, entry.tokens, span.end_ns - span.begin_ns});
      first_prefill = std::min(first_prefill, span.begin_ns);
      last_batch = std::max(last_batch, span.micro_batch);
    }
  }
  for (const TraceSpan& span : spans) {
    if (span.stage > 0 && span.micro_batch == last_batch && IsOf(span, request)) {
      solo.tail_ns += span.end_ns - span.begin_ns;
    }
  }
  if (first_prefill < last_encode_end) {
    return absl::FailedPreconditionError("solo run: a picture was encoded during the prefill");
  }
  std::sort(solo.chunks.begin(), solo.chunks.end(),
            [](const auto& a, const auto& b) { return a.begin < b.begin; });
  int64_t at = 0;
  for (const SoloTimes::Chunk& chunk : solo.chunks) {
    if (chunk.begin != at) break;
    at += chunk.tokens;
  }
  if (at != prompt_tokens) {
    return absl::FailedPreconditionError(
        absl::StrCat("solo run: chunks cover ", at, " of ", prompt_tokens, " tokens"));
  }
  return solo;
}

TimeNs CriticalPathBound(const SoloTimes& solo, int32_t encoders) {
  TimeNs bound = PrefillFrom(solo, 0);
  std::vector<TimeNs> free_at(static_cast<size_t>(std::max(encoders, 1)), 0);
  TimeNs ready = 0;
  for (const SoloTimes::Item& item : solo.items) {
    const auto encoder = std::min_element(free_at.begin(), free_at.end());
    *encoder += item.encode_ns;
    ready = std::max(ready, *encoder);
    bound = std::max(bound, ready + PrefillFrom(solo, item.token_begin));
  }
  return bound + solo.tail_ns;
}

}  // namespace rserve::tool
