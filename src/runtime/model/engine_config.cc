#include "src/runtime/model/engine_config.h"

#include <unistd.h>

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rserve/cc/kv_block_pool.h"
#include "rserve/cc/policy.h"
#include "src/backend/plan/shard.h"
#include "src/runtime/model/placement.h"

namespace rserve::runtime {

namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kDefaultKvBytes = 2048 * kMiB;
constexpr int64_t kDefaultKvContexts = 4;
constexpr int64_t kDefaultEmbeddingBytes = 256 * kMiB;
constexpr int64_t kDefaultPixelBytes = 512 * kMiB;
constexpr int64_t kDefaultInputBytes = 1024 * kMiB;
constexpr int64_t kDefaultEncoderBatchTokens = 16384;
constexpr int64_t kDefaultQueueRequests = 1024;
constexpr int64_t kDefaultMaxUnacknowledged = 65536;
constexpr int64_t kDefaultMaxImagePixels = int64_t{1} << 27;
constexpr int64_t kMaxBlockTokens = 4096;
constexpr int64_t kMaxMediaThreads = 256;
constexpr int64_t kMaxRanks = 64;

absl::Status CheckRange(const std::string& option, int64_t value, int64_t min, int64_t max) {
  if (value >= min && value <= max) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      option, " is ", value, ", must be ",
      max == INT64_MAX ? absl::StrCat("at least ", min) : absl::StrCat(min, " to ", max)));
}

int64_t OrDefault(int64_t value, int64_t fallback) { return value == 0 ? fallback : value; }

Policy MakePolicy(const ModelEngineOptions& options) {
  Policy policy = SchemePolicy(options.scheme);
  policy.gate = options.gate.value_or(policy.gate);
  policy.sharing = options.sharing.value_or(policy.sharing);
  policy.trigger = options.trigger.value_or(policy.trigger);
  policy.encode_batch_tokens = OrDefault(options.encode_batch_tokens, policy.encode_batch_tokens);
  policy.token_budget = OrDefault(options.token_budget, policy.token_budget);
  policy.encode_across_requests |= options.encode_across_requests;
  policy.order = options.order.value_or(policy.order);
  policy.order_stretch = OrDefault(options.order_stretch, policy.order_stretch);
  policy.order_guard_ns = OrDefault(options.order_guard_ns, policy.order_guard_ns);
  policy.hopeless_guard_ns = std::max(policy.hopeless_guard_ns, policy.order_guard_ns);
  policy.slo_ns = options.slo_ns;
  policy.min_token_budget = OrDefault(options.min_token_budget, policy.min_token_budget);
  policy.square_root_budget = options.square_root_budget.value_or(policy.square_root_budget);
  policy.adaptive_encode_batch = options.adaptive_encode_batch.value_or(
      policy.adaptive_encode_batch && options.encode_batch_tokens == 0);
  policy.encode_flush_ns = options.encode_flush_ns;
  policy.one_chunk_in_flight = options.one_chunk_in_flight;
  return policy;
}

// Blocks of the KV cache, checked against what the machine has.
absl::StatusOr<int32_t> KvBlocks(const ModelEngineOptions& options, const model::TextConfig& text) {
  const int64_t token_bytes = KvBytesPerToken(text, options.backend);
  const int64_t block_tokens = options.kv_block_tokens;
  const int64_t by_default = std::max<int64_t>(
      block_tokens,
      std::min(kDefaultKvContexts * text.max_position_embeddings, kDefaultKvBytes / token_bytes));
  const int64_t tokens = OrDefault(options.kv_tokens, by_default);
  const int64_t blocks = KvBlocksFor(tokens, block_tokens);
  const int64_t memory = static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
  // A device's memory is asked for when its cache is made.
  const bool too_much =
      options.backend == Backend::kCpu && blocks > memory / (block_tokens * token_bytes);
  if (blocks > std::numeric_limits<int32_t>::max() || too_much) {
    return absl::ResourceExhaustedError(
        absl::StrCat("kv_tokens is ", tokens, ": a KV cache of ", token_bytes,
                     " bytes a token does not fit the machine's memory of ", memory, " bytes"));
  }
  return static_cast<int32_t>(blocks);
}

}  // namespace

int64_t KvBytesPerToken(const model::TextConfig& text, Backend backend) {
  const int64_t heads = int64_t{2} * text.num_layers * text.num_kv_heads;
  if (backend == Backend::kCuda) return heads * ((text.head_dim + 7) / 8 * 8) * 2;  // bf16, padded
  return heads * text.head_dim * int64_t{sizeof(float)};
}

int64_t MaxMicroBatchTokens(const OrchestratorConfig& core) {
  return std::min(core.policy.token_budget,
                  int64_t{core.budgets.kv_blocks} * core.budgets.kv_block_tokens);
}

absl::Status CheckOptions(const ModelEngineOptions& options) {
  if (options.model_path.empty() || options.model_path.find('\0') != std::string::npos) {
    return absl::InvalidArgumentError("model_path is empty or holds a NUL byte");
  }
  struct Range {
    const char* name;
    int64_t value;
    int64_t min;
    int64_t max;
  };
  const Range ranges[] = {
      {"scheme", static_cast<int64_t>(options.scheme), 0, static_cast<int64_t>(Scheme::kAdaptive)},
      {"encode_batch_tokens", options.encode_batch_tokens, 0, INT64_MAX},
      {"token_budget", options.token_budget, 0, INT64_MAX},
      {"encode_flush_ns", options.encode_flush_ns, 0, INT64_MAX},
      {"order_stretch", options.order_stretch, 0, 1000},
      {"order_guard_ns", options.order_guard_ns, 0, INT64_MAX},
      {"slo_ns", options.slo_ns, 0, INT64_MAX},
      {"min_token_budget", options.min_token_budget, 0, INT64_MAX},
      {"max_micro_batches", options.max_micro_batches, 0, 4096},
      {"max_encode_attempts", options.max_encode_attempts, 1, 1000},
      {"media_threads", options.media_threads, 1, kMaxMediaThreads},
      {"threads", options.threads, 0, INT32_MAX},
      {"kv_tokens", options.kv_tokens, 0, INT64_MAX},
      {"kv_block_tokens", options.kv_block_tokens, 1, kMaxBlockTokens},
      {"embedding_bytes", options.embedding_bytes, 0, INT64_MAX},
      {"pixel_bytes", options.pixel_bytes, 0, INT64_MAX},
      {"encoder_batch_tokens", options.encoder_batch_tokens, 0, INT64_MAX},
      {"units_in_flight", options.units_in_flight, 0, INT64_MAX},
      {"input_bytes", options.input_bytes, 0, INT64_MAX},
      {"embedding_cache_bytes", options.embedding_cache_bytes, 0, INT64_MAX},
      {"queue_requests", options.queue_requests, 0, INT64_MAX},
      {"max_prompt_tokens", options.max_prompt_tokens, 0, INT64_MAX},
      {"max_image_pixels", options.max_image_pixels, 0, INT64_MAX},
      {"max_unacknowledged", options.max_unacknowledged, 0, INT64_MAX},
      {"backend", static_cast<int64_t>(options.backend), 0, static_cast<int64_t>(Backend::kCuda)},
      {"tensor_parallel", options.tensor_parallel, 1, kMaxRanks},
      {"device_sharing", static_cast<int64_t>(options.device_sharing), 0,
       static_cast<int64_t>(DeviceSharing::kParts)},
      {"encoder_percent", options.encoder_percent, 0, 99},
      {"stage_handover", static_cast<int64_t>(options.stage_handover), 0,
       static_cast<int64_t>(StageHandover::kHost)},
      {"graph_rows", options.graph_rows, -1, INT32_MAX},
  };
  for (const Range& range : ranges) {
    absl::Status status = CheckRange(range.name, range.value, range.min, range.max);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::StatusOr<EngineConfig> MakeEngineConfig(const ModelEngineOptions& options,
                                              const model::ModelConfig& model,
                                              const model::ImageProcessorConfig& processor) {
  if (absl::Status status = CheckOptions(options); !status.ok()) return status;
  if (options.weights == Weights::kInt8 && options.backend != Backend::kCpu) {
    return absl::InvalidArgumentError("weights is int8, which the CPU backend alone has");
  }
  if (options.cudnn_attention && (options.deterministic || options.backend != Backend::kCuda)) {
    return absl::InvalidArgumentError(
        options.deterministic
            ? "cudnn_attention: a row's bits may depend on its batch, which deterministic excludes"
            : "cudnn_attention is of the CUDA backend");
  }
  if (absl::Status s = backend::CheckShard(model.text, 0, options.tensor_parallel); !s.ok()) {
    return absl::Status(
        s.code(), absl::StrCat("tensor_parallel is ", options.tensor_parallel, ": ", s.message()));
  }
  auto layers = SplitLayers(options, model.text.num_layers);
  if (!layers.ok()) return layers.status();
  auto workers = PlaceWorkers(options, *layers, UsableCores());
  if (!workers.ok()) return workers.status();
  auto kv_blocks = KvBlocks(options, model.text);
  if (!kv_blocks.ok()) return kv_blocks.status();

  EngineConfig config;
  config.workers = *std::move(workers);
  config.kv_bytes_per_token = KvBytesPerToken(model.text, options.backend);
  config.tensor_parallel = options.tensor_parallel;
  config.weights = options.weights;
  config.kv_reuse = options.kv_reuse;
  config.max_unacknowledged = OrDefault(options.max_unacknowledged, kDefaultMaxUnacknowledged);
  OrchestratorConfig& core = config.core;
  for (const WorkerInfo& worker : config.workers) core.workers.push_back(worker.spec);
  core.policy = MakePolicy(options);
  core.prepare_lanes = options.media_threads;
  core.max_micro_batches = options.max_micro_batches;
  if (core.max_micro_batches == 0 && options.scheme == Scheme::kAdaptive) {
    core.max_micro_batches = AdaptiveMicroBatches(core.workers);
  }
  core.max_encode_attempts = options.max_encode_attempts;

  // The largest picture that the resize rule yields.
  const int64_t factor = model.vision.factor();
  const int64_t picture_tokens = std::max<int64_t>(1, processor.max_pixels / (factor * factor));
  const int64_t row_bytes = int64_t{model.text.hidden_size} * sizeof(float);
  const int64_t patch_bytes = int64_t{model.vision.patch_dim()} * sizeof(float);
  Budgets& budgets = core.budgets;
  budgets.embedding_bytes = OrDefault(options.embedding_bytes,
                                      std::max(kDefaultEmbeddingBytes, picture_tokens * row_bytes));
  budgets.pixel_bytes = OrDefault(
      options.pixel_bytes,
      std::max(kDefaultPixelBytes, picture_tokens * model.vision.merge_unit() * patch_bytes));
  budgets.encoder_batch_tokens =
      OrDefault(options.encoder_batch_tokens, std::max(kDefaultEncoderBatchTokens, picture_tokens));
  budgets.units_in_flight = OrDefault(options.units_in_flight, INT64_MAX);
  budgets.kv_blocks = *kv_blocks;
  budgets.kv_block_tokens = options.kv_block_tokens;
  budgets.queue_requests = OrDefault(options.queue_requests, kDefaultQueueRequests);
  budgets.input_bytes = OrDefault(options.input_bytes, kDefaultInputBytes);

  PlanLimits& limits = config.limits;
  limits.max_prompt_tokens =
      OrDefault(options.max_prompt_tokens, model.text.max_position_embeddings);
  limits.max_image_pixels = OrDefault(options.max_image_pixels, kDefaultMaxImagePixels);
  limits.input_bytes = budgets.input_bytes;
  limits.kv_tokens = int64_t{budgets.kv_blocks} * budgets.kv_block_tokens;
  limits.encoder_batch_tokens = budgets.encoder_batch_tokens;
  return config;
}

}  // namespace rserve::runtime
