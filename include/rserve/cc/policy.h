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

// Which request goes first, on the encoder (under a streaming gate) and in micro-batches.
enum class Order : int32_t {
  kArrival = 0,  // first come, first served (the paper)
  // The request that is due first. It is due at its submit + min(Policy::order_stretch times the
  // work left of it, Policy::order_guard_ns): with a large stretch the one with the least work left
  // goes first, with 0 the oldest; work that is done brings a request forward, so what is begun is
  // finished. A request is passed only by requests that were submitted less than order_guard_ns
  // after it.
  kShortestFirst = 1,
  // As kShortestFirst with four times the stretch, but a request that can no longer have its first
  // token within Policy::slo_ns of its submit is due at its submit + hopeless_guard_ns: those that
  // still can go before it.
  kFeasibleFirst = 2,
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
  TimeNs encode_flush_ns = kNever;   // EncoderSchedulerOptions::flush_ns
  int64_t token_budget = 2048;       // B
  bool one_chunk_in_flight = false;  // vanilla PP instead of CPP

  // An order other than kArrival needs EncodeTrigger::kOnArrival.
  Order order = Order::kArrival;
  int64_t order_stretch = 8;                   // 0 to 1000
  TimeNs order_guard_ns = 30'000'000'000;      // at least 0
  TimeNs slo_ns = 0;                           // kFeasibleFirst: at least 1
  TimeNs hopeless_guard_ns = 300'000'000'000;  // at least order_guard_ns

  // What follows adapts to rates learned from completions alone. Until both parts of a rate are
  // known C is the fixed value above and B the geometric mean of its two limits.
  //
  // A micro-batch of c tokens costs o + a c on each of S stages, so K tokens take about
  // (K / c + S - 1) (o + a c): least at c = sqrt(K o / ((S - 1) a)). K is what waits, but at
  // least what a queue with one server would hold at the measured load r: a mean prompt / (1 - r);
  // and 1 + r times that, since the cost of small micro-batches also delays those who come later.
  // Where S is 1, half a micro-batch stands for the other stages: it is what one due sooner waits.
  // Never below min_token_budget nor above token_budget, unless an atomic span needs more. With
  // several stages it is the mean over the last 64 micro-batches or so, since unlike sizes leave
  // stages idle between them.
  bool square_root_budget = false;
  int64_t min_token_budget = 256;
  // An encode batch of C tokens costs o + e C; M tokens take M o / C more than they must, and the
  // prefill (a a token) of the last batch comes after: least at C = sqrt(M o / a). M is what waits
  // for the encoder while it is the slower part, else only what the first request has. C starts at
  // encode_batch_tokens. One worker alone overlaps nothing: there C is all that the first request
  // has, up to encode_batch_tokens or sqrt(2 M o / e), and a picture that is being prepared is
  // waited for, up to o (of batches of one size an eighth, before any without end).
  bool adaptive_encode_batch = false;
};

enum class Scheme : int32_t {
  kRserve = 0,       // own encoder, streaming, many requests: the paper
  kRserveIntra = 1,  // own encoder, streaming, one request in the pipeline
  kEpd = 2,          // own encoder, whole-request gate: gLLM-epd
  kColocated = 3,    // encoder on the first stage's worker, whole-request gate: gLLM
  kAdaptive = 4,     // kRserve with order, B and C that follow the load: ours
};

// `encoders`, where an engine takes it for kAdaptive: none of its own, stage 0's worker encodes
// too.
inline constexpr int32_t kSharedEncoder = -1;

std::string_view SchemeName(Scheme scheme);  // "rserve", "rserve_intra", "epd", ...
absl::StatusOr<Scheme> ParseScheme(std::string_view name);

// Gate, sharing and trigger of a scheme; C, B and the rest keep their defaults, but for kAdaptive,
// whose B is the most that a micro-batch may grow to.
Policy SchemePolicy(Scheme scheme);

// One worker a stage, and for schemes with an encoder of their own `encoders` workers after them;
// kColocated puts the encoder on stage 0's worker and takes no `encoders`, and so does kAdaptive
// with `encoders` 0: stage 0, best a thin one, goes first there.
std::vector<WorkerSpec> SchemePlacement(Scheme scheme, int32_t stages, int32_t encoders,
                                        int32_t depth = 1);

// Micro-batches in flight under kAdaptive: twice what the stages take. One more than they take
// already keeps a stage from waiting for the last one, and unlike sizes need some room between
// them.
int32_t AdaptiveMicroBatches(const std::vector<WorkerSpec>& workers);

// "PP4+E1", "TP1+E1" (one stage and one encoder), "PP3" (no worker of its own for the encoder).
std::string TopologyName(const std::vector<WorkerSpec>& workers);

}  // namespace rserve

#endif  // RSERVE_CC_POLICY_H_
