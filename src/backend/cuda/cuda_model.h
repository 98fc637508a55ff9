// Qwen2.5-VL on a CUDA device: weights in bf16, loaded once, and the two roles that run on them.
//
// bf16 weights and activations, f32 sums: one rounding to bf16 after each product, norm, rotary and
// activation. Logits and embeddings leave in f32. docs/cuda.md has the memory plan and says which
// kernel does what.

#ifndef RSERVE_SRC_BACKEND_CUDA_CUDA_MODEL_H_
#define RSERVE_SRC_BACKEND_CUDA_CUDA_MODEL_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "src/backend/backend.h"
#include "src/backend/cuda/collective.h"
#include "src/backend/cuda/device.h"
#include "src/backend/cuda/embedding_store.h"
#include "src/backend/cuda/hand_over.h"
#include "src/backend/cuda/turns.h"
#include "src/backend/plan/geometry.h"
#include "src/model/spec/model_config.h"
#include "src/model/weights/checkpoint.h"

namespace rserve::cuda {

using backend::KvGeometry;
using backend::LayerRange;

// Which weights a worker needs.
struct LoadOptions {
  bool vision = true;
  LayerRange layers;  // of the language model; empty (begin == end): none
  int32_t rank = 0;   // which part of these layers, of `ranks` (plan/shard.h)
  int32_t ranks = 1;
};

// Immutable after loading. Roles on the same device share it.
class CudaModel {
 public:
  // Reads, checks (each tensor's presence, shape, dtype), converts and uploads. `device` outlives
  // the model. Errors: the checkpoint's, with the tensor's name; UNIMPLEMENTED for shapes that no
  // kernel covers, with the value and its limit; RESOURCE_EXHAUSTED for device memory.
  static absl::StatusOr<std::shared_ptr<const CudaModel>> Load(const model::ModelConfig& config,
                                                               const model::Checkpoint& checkpoint,
                                                               const LoadOptions& options,
                                                               Device* device);
  virtual ~CudaModel() = default;
  virtual const model::ModelConfig& config() const = 0;
  virtual int64_t weight_bytes() const = 0;
};

// What a role's arena is made for; more is refused with RESOURCE_EXHAUSTED that names the limit.
struct EncoderLimits {
  int64_t max_patches = 16384;  // encoded together; a unit may not have more
};
struct StageLimits {
  int64_t max_tokens = 8192;    // of a micro-batch
  int64_t max_entries = 1024;   // of a micro-batch
  int64_t max_logit_rows = 64;  // computed together; more are taken in turns that are waited for
};

struct RoleOptions {
  // One algorithm for each weight shape and no split of k, so that a row's bits do not depend on
  // its batch; a little slower. Kernels of our own are always so.
  bool deterministic = true;
  // Pieces of work that may be started and not over; a further one waits for the oldest.
  int32_t depth = 2;
  // How the role shares its device with others: its part of the multiprocessors, and whose turn it
  // takes (null: nobody's).
  Part part;
  std::shared_ptr<Turns> turns;
  // Work that comes again with equal sizes and at most so many rows (patches or tokens) is recorded
  // and replayed (graphs.h); 0: none. Not with several ranks, nor on a part of the device.
  int64_t graph_rows = 0;
  // Encoder: attention over segments of one length by the device's library (fused_attention.h)
  // where it covers them. Not with `deterministic`; UNAVAILABLE where there is none.
  bool fused_attention = false;
  // Where units and slices that name stored rows have them: encoders write there, the first stage
  // reads its rank's copy. Null: embeddings go through host memory alone.
  std::shared_ptr<EmbeddingStore> embeddings;
};

// What ties a stage to others.
struct StageLinks {
  // This rank's, for a model of several ranks. Each rank writes its part of the vocabulary into the
  // logits; all of them write, or hand over, the same hidden states.
  std::unique_ptr<Collective> collective;
  // Where hidden states come from and go to on devices; null: through host memory, as backend.h
  // has it. With one, the memory that a work names for them is not touched.
  std::shared_ptr<HandOver> before, after;
};

// Allocate all that they ever need. Each has a stream of its own, and a thread that calls what
// waits for work that was started. UNAVAILABLE once the device is lost.
absl::StatusOr<std::unique_ptr<backend::EncoderBackend>> MakeCudaEncoder(
    std::shared_ptr<const CudaModel> model, const EncoderLimits& limits,
    const RoleOptions& options);
absl::StatusOr<std::unique_ptr<backend::StageBackend>> MakeCudaStage(
    std::shared_ptr<const CudaModel> model, LayerRange layers, const KvGeometry& kv,
    const StageLimits& limits, const RoleOptions& options, StageLinks links = {});

}  // namespace rserve::cuda

#endif  // RSERVE_SRC_BACKEND_CUDA_CUDA_MODEL_H_
