// Schemes as presets of two independent things: placement (which roles live on which worker) and
// policy (when prefill may start, what shares a micro-batch, when encoding starts). All schemes run
// the same code on the same work.

#ifndef RSERVE_CC_POLICY_H_
#define RSERVE_CC_POLICY_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "rserve/cc/encoder_scheduler.h"
#include "rserve/cc/token_scheduler.h"

namespace rserve {

// What may be prefilled before all of a request is encoded.
enum class Gate : int32_t {
  kStreaming = 0,     // whatever is ready (the paper)
  kWholeRequest = 1,  // nothing until every item is encoded
};

// What starts the encoding of a request.
enum class EncodeTrigger : int32_t {
  kOnArrival = 0,     // its turn in the encoder's queue
  kOnFirstChunk = 1,  // its turn in the prefill queue; the stage waits for it (gLLM)
  kOnChunk = 2,       // as kOnFirstChunk, but unit by unit, each just before its chunk (vLLM)
};

enum class Role : int32_t { kStage = 0, kEncoder = 1 };

// A worker: one timeline that takes one action at a time.
struct WorkerSpec {
  bool encoder = false;       // hosts an encoder
  int32_t stage = -1;         // hosts this pipeline stage; -1: none
  int32_t depth = 1;          // actions issued and not finished, at most (1: the device idles
                              // for a decision between two actions; CUDA: at least 2)
  Role first = Role::kStage;  // which role goes first when both have work
  int32_t max_passes = 8;     // the other role runs after at most so many actions of the first
};

struct Policy {
  Gate gate = Gate::kStreaming;
  Sharing sharing = Sharing::kMany;
  EncodeTrigger trigger = EncodeTrigger::kOnArrival;
  int64_t encode_batch_tokens = 1024;  // C; kEncodeAll: all units of a request at once
  bool encode_across_requests = false;
  TimeNs encode_flush_ns = 0;        // EncoderSchedulerOptions::flush_ns
  int64_t token_budget = 2048;       // B
  bool one_chunk_in_flight = false;  // vanilla PP instead of CPP
};

enum class Scheme : int32_t {
  kRserve = 0,       // own encoder, streaming, many requests: the paper
  kRserveIntra = 1,  // own encoder, streaming, one request in the pipeline
  kEpd = 2,          // own encoder, whole-request gate: gLLM-epd
  kColocated = 3,    // encoder on the first stage's worker, whole-request gate: gLLM
};

std::string_view SchemeName(Scheme scheme);  // "rserve", "rserve_intra", "epd", ...
absl::StatusOr<Scheme> ParseScheme(std::string_view name);

// Gate, sharing and trigger of a scheme; C, B and the rest keep their defaults.
Policy SchemePolicy(Scheme scheme);

// One worker a stage, and for schemes with an encoder of their own `encoders` workers after them;
// kColocated puts the encoder on stage 0's worker and takes no `encoders`.
std::vector<WorkerSpec> SchemePlacement(Scheme scheme, int32_t stages, int32_t encoders,
                                        int32_t depth = 1);

// "PP4+E1", "TP1+E1" (one stage and one encoder), "PP3" (no worker of its own for the encoder).
std::string TopologyName(const std::vector<WorkerSpec>& workers);

}  // namespace rserve

#endif  // RSERVE_CC_POLICY_H_
