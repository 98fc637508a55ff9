// Qwen2.5-VL on the CPU: weights loaded once, shared by all workers.

#ifndef RSERVE_SRC_BACKEND_CPU_CPU_MODEL_H_
#define RSERVE_SRC_BACKEND_CPU_CPU_MODEL_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "src/backend/backend.h"
#include "src/backend/cpu/cpu_collective.h"
#include "src/backend/cpu/thread_pool.h"
#include "src/backend/plan/geometry.h"
#include "src/model/spec/model_config.h"
#include "src/model/weights/checkpoint.h"

namespace rserve::cpu {

using backend::LayerRange;

// A stage's cache takes, in f32, layers * num_blocks * block_tokens * 2 * num_kv_heads * head_dim *
// 4 bytes, touched as blocks are first used.
using backend::KvGeometry;

// How the matrices of the layers and the vision blocks are held. Patch embedding, merger, token
// embeddings and head stay as stored in either case: they are little work and much of the accuracy.
enum class WeightFormat : int32_t {
  kStored = 0,  // as the checkpoint has them
  kInt8 = 1     // 8 bits, a scale a column; rows of x are quantised as they come (kernels/gemm)
};

class CpuModel;

struct LoadOptions {
  ThreadPool* pool = nullptr;  // packs weights in parallel; null: on the caller's thread
  std::function<void(int64_t done_bytes, int64_t total_bytes)> progress;  // may be empty
  WeightFormat weights = WeightFormat::kStored;
  // Which part of the language model (plan/shard.h); rank 0 holds the vision tower too.
  int32_t rank = 0;
  int32_t ranks = 1;
  std::shared_ptr<const CpuModel> shared = nullptr;  // rank 0's, whose token embeddings all use
};

// Immutable after loading, so encoders and stages on any thread share one copy of the weights.
class CpuModel {
 public:
  // Reads, checks (each tensor's presence, shape, dtype) and packs all weights. Fails with the
  // tensor's name.
  static absl::StatusOr<std::shared_ptr<const CpuModel>> Load(const model::ModelConfig& config,
                                                              const model::Checkpoint& checkpoint,
                                                              const LoadOptions& options);
  virtual ~CpuModel() = default;
  virtual const model::ModelConfig& config() const = 0;
  virtual int64_t weight_bytes() const = 0;
};

// Makes the two roles. `pool` is the worker's own cores and must outlive the backend; null: the
// caller's thread alone. Layers or a geometry that cannot be, and a cache that finds no memory, are
// reported by every Forward.
//
// Both keep scratch that grows to the largest work seen and allocate nothing after that. In floats:
//   encoder  patches * (5 hidden + head_dim) + min(patches, 1024) * intermediate, of the vision
//            tower, where a call's units are taken together up to 4096 patches (a larger unit
//            alone);
//   stage    tokens * (2 hidden + (2 heads + 2 kv_heads) * head_dim + head_dim)
//            + min(tokens, 1024) * intermediate;
//   each     about 0.9 MB a thread; with int8 weights also a byte for each input of a product.
//
// `collective`: this rank's, for a model of several ranks; a stage of several ranks is put together
// by backend::MakeParallelStage. A rank adds the parts of all ranks to its residual stream, in f32
// and in the order of the ranks: (((p0 + p1) + p2) + ...) after attention and after the MLP. So all
// ranks hold the same bits, and a row's bits depend on the number of ranks, but on nothing else
// that one rank's do not depend on. A rank writes its part of the vocabulary into the logits.
std::unique_ptr<backend::EncoderBackend> MakeCpuEncoder(std::shared_ptr<const CpuModel> model,
                                                        ThreadPool* pool);
std::unique_ptr<backend::StageBackend> MakeCpuStage(
    std::shared_ptr<const CpuModel> model, LayerRange layers, const KvGeometry& kv,
    ThreadPool* pool, std::unique_ptr<CpuCollective> collective = nullptr);

}  // namespace rserve::cpu

#endif  // RSERVE_SRC_BACKEND_CPU_CPU_MODEL_H_
