// Executor: what the engine asks of a model. The engine decides what runs when and on which worker;
// the executor computes. The built-in Qwen2.5-VL model, a host's own model and the timed stand-in
// of the benchmarks are all executors.

#ifndef RSERVE_CC_EXECUTOR_H_
#define RSERVE_CC_EXECUTOR_H_

#include <cstdint>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "rserve/cc/embedding_tracker.h"
#include "rserve/cc/request_plan.h"
#include "rserve/cc/token_scheduler.h"

namespace rserve {

// Reports the end of one action. Must be called exactly once, from any thread, also from inside the
// call that was given it. After it the executor does not touch the action's buffers any more.
using Done = absl::AnyInvocable<void(absl::Status) &&>;

struct EncodeJob {
  int32_t worker = 0;
  std::vector<UnitRef> units;
  int64_t tokens = 0;
};

struct StageJobEntry {
  BatchEntry chunk;
  std::vector<int32_t> kv_blocks;          // the request's block table, in token order
  std::vector<EmbeddingSlice> embeddings;  // what the chunk reads (stages that read embeddings)
  bool last_chunk = false;                 // ends the prompt: the last stage yields a first token
  bool ended = false;                      // the request has ended: rows must exist, values not
};

struct StageJob {
  int32_t worker = 0;
  int32_t stage = 0;
  bool last_stage = false;
  uint64_t micro_batch = 0;  // the same number on every stage: keys the hand-over
  std::vector<StageJobEntry> entries;
  int64_t tokens = 0;
};

struct FirstToken {
  int32_t token = -1;
  float logprob = 0;  // natural logarithm of the token's probability
};

// Thread rules: Prepare is called on the engine's media threads, several at a time for different
// units. Encode and Forward are called on the worker's own thread, one at a time a worker; they may
// compute before they return (CPU) or start the work and return (devices). The other calls come
// from the engine's driver thread. All calls for a request happen after its submit and before its
// Forget.
class Executor {
 public:
  virtual ~Executor() = default;

  // Makes the unit's input ready for the encoder (decode, resize, patches). May block.
  virtual absl::Status Prepare(UnitRef unit) = 0;

  // Encodes a batch. A failure fails every request with a unit in it (the engine encodes again what
  // failed with UNAVAILABLE, up to OrchestratorConfig::max_encode_attempts).
  virtual void Encode(EncodeJob job, Done done) = 0;

  // Runs one stage over a micro-batch. Stages of one micro-batch are called in order, each after
  // the one before it is done; micro-batches reach a stage in the order of their numbers.
  virtual void Forward(StageJob job, Done done) = 0;

  // The micro-batch will not be forwarded any further: its hand-over buffers can go.
  virtual void DropMicroBatch(uint64_t micro_batch) = 0;

  // The buffers behind the unit may be reused.
  virtual void ReleasePixels(UnitRef unit) = 0;
  virtual void ReleaseEmbedding(UnitRef unit) = 0;

  // The first token of a request whose last stage is done with its last chunk.
  virtual absl::Status TakeFirstToken(RequestId request, FirstToken* out) = 0;

  // Nothing of the request will be asked for again.
  virtual void Forget(RequestId request) = 0;
};

}  // namespace rserve

#endif  // RSERVE_CC_EXECUTOR_H_
