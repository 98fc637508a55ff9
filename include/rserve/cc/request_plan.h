// What the schedulers know of a request: sizes and places, never pixels or weights.
//
// A request is a prompt of `prompt_tokens` tokens. Some intervals of it (spans) take rows of an
// item's embedding; the rest is text, whose embeddings are always at hand. An item (image, video,
// audio clip) is encoded in units: an image is one unit, a video one a temporal patch. A unit is
// the smallest thing that is prepared, encoded, batched and released.

#ifndef RSERVE_CC_REQUEST_PLAN_H_
#define RSERVE_CC_REQUEST_PLAN_H_

#include <array>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"

namespace rserve {

// Chosen by the caller, unique among open requests, never 0.
using RequestId = uint64_t;

// A point in time or a duration in nanoseconds. The core never reads a clock: time is an argument.
using TimeNs = int64_t;
inline constexpr TimeNs kNever = INT64_MAX;

// One unit of one request. `unit` indexes RequestPlan::units.
struct UnitRef {
  RequestId request = 0;
  int32_t unit = 0;
  friend bool operator==(const UnitRef&, const UnitRef&) = default;
  friend auto operator<=>(const UnitRef&, const UnitRef&) = default;
};

struct UnitPlan {
  int32_t item = 0;             // which item it is a part of; units of an item follow each other
  int64_t tokens = 0;           // embedding rows, at least 1
  int64_t embedding_bytes = 0;  // what the encoder writes; held until the rows are prefilled
  int64_t pixel_bytes = 0;      // the prepared input; held from its preparation to its encode
};

// The tokens [token_begin, token_begin + tokens) take the item's rows [row_begin, row_begin +
// tokens), rows counted over all units of the item.
struct SpanPlan {
  int64_t token_begin = 0;
  int64_t tokens = 0;
  int32_t item = 0;
  int64_t row_begin = 0;
  bool atomic = false;  // attended in both directions: taken by a micro-batch whole
};

// Names what a full KV block holds: a digest of its tokens, of all that stands for them (rows of an
// item, positions, model, tenant), and of the block before it. Equal keys mean equal keys and
// values, up to the block's last token; the host makes them so, the core only compares them.
using KvBlockKey = std::array<uint8_t, 32>;

struct RequestPlan {
  RequestId id = 0;
  int64_t prompt_tokens = 0;   // at least 1
  int64_t max_new_tokens = 1;  // KV room to keep beside the prompt's
  int32_t num_items = 0;
  std::vector<UnitPlan> units;  // grouped by item, items ascending
  std::vector<SpanPlan> spans;  // ascending, not overlapping
  // The last stage that reads this request's embeddings: 0 when they only enter the first stage.
  int32_t last_reader_stage = 0;
  TimeNs deadline_ns = kNever;  // absolute; the request fails when it passes
  int64_t input_bytes = 0;      // host bytes held for it, counted against the limit
  // The host's own memory is read until the input is released, so the terminal event waits for
  // preparations that are out. False: the executor has copies, the end waits for nothing.
  bool input_borrowed = true;
  // Of the prompt's full KV blocks (Budgets::kv_block_tokens each), from the first one on; may be
  // fewer, or none: the request then reuses nothing and leaves nothing to be reused.
  std::vector<KvBlockKey> kv_block_keys;
};

// Checks a plan by itself: positive sizes, ids and intervals in range, order, every unit used by a
// span, every item with a unit, no arithmetic overflow. INVALID_ARGUMENT names index and value.
absl::Status ValidatePlan(const RequestPlan& plan);

}  // namespace rserve

#endif  // RSERVE_CC_REQUEST_PLAN_H_
