// The critical path of one request: no schedule on one encoder worker and these stages can give the
// first token earlier.
//
// Pictures are encoded one after another, so picture k is ready at the earliest when all up to it
// are encoded. From then on at least the rest of the prompt, from k's first token on, must be
// prefilled. The bound is the largest such sum over k, and at least the whole prefill.

#ifndef RSERVE_TOOLS_RSERVE_BOUND_H_
#define RSERVE_TOOLS_RSERVE_BOUND_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "rserve/cc/engine.h"

namespace rserve::tool {

// Times of one request that ran alone, each picture encoded alone and nothing prefilled meanwhile.
struct SoloTimes {
  struct Item {
    int64_t token_begin = 0;
    TimeNs encode_ns = 0;
  };
  struct Chunk {
    int64_t begin = 0;
    int64_t tokens = 0;
    TimeNs ns = 0;  // on the first stage
  };
  std::vector<Item> items;    // in prompt order
  std::vector<Chunk> chunks;  // in prompt order, without gaps
  TimeNs tail_ns = 0;         // the last chunk on the stages after the first

  TimeNs encode_ns() const;
  TimeNs prefill_ns() const;
};

// Takes the times of `request` out of an engine's spans. It was run alone, under a whole-request
// gate; spans of other requests are passed over.
// FAILED_PRECONDITION when the spans are of something else: a batch of several pictures, an encode
// during the prefill, a chunk missing.
absl::StatusOr<SoloTimes> SoloTimesFromSpans(absl::Span<const TraceSpan> spans, RequestId request,
                                             absl::Span<const int64_t> item_begin,
                                             int64_t prompt_tokens);

// The time of the tokens before a position inside a chunk is the chunk's in proportion. `encoders`
// workers take the pictures in order, each the next one when it is free.
TimeNs CriticalPathBound(const SoloTimes& solo, int32_t encoders);

}  // namespace rserve::tool

#endif  // RSERVE_TOOLS_RSERVE_BOUND_H_
