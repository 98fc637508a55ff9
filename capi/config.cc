#include "capi/config.h"

#include <cstddef>
#include <optional>

#include "capi/enums.h"
#include "capi/guard.h"
#include "capi/structs.h"

namespace rserve::capi {

namespace {

// Later versions append fields.
constexpr size_t kFirstConfigSize = offsetof(rserve_engine_config, embedding_cache_bytes);
constexpr size_t kMaxListEntries = 65536;
constexpr uint32_t kKnownFlags =
    RSERVE_ENGINE_F_VANILLA_PP | RSERVE_ENGINE_F_ENCODE_ACROSS_REQUESTS |
    RSERVE_ENGINE_F_NO_PINNING | RSERVE_ENGINE_F_KV_REUSE | RSERVE_ENGINE_F_NOT_DETERMINISTIC |
    RSERVE_ENGINE_F_CUDNN_ATTENTION | RSERVE_ENGINE_F_HOST_EMBEDDINGS;

static_assert(RSERVE_SCHEME_RSERVE == static_cast<int>(Scheme::kRserve));
static_assert(RSERVE_SCHEME_RSERVE_INTRA == static_cast<int>(Scheme::kRserveIntra));
static_assert(RSERVE_SCHEME_EPD == static_cast<int>(Scheme::kEpd));
static_assert(RSERVE_SCHEME_COLOCATED == static_cast<int>(Scheme::kColocated));
static_assert(RSERVE_WEIGHTS_STORED == static_cast<int>(Weights::kStored));
static_assert(RSERVE_WEIGHTS_INT8 == static_cast<int>(Weights::kInt8));
static_assert(RSERVE_SCHEME_ADAPTIVE == static_cast<int>(Scheme::kAdaptive));
static_assert(RSERVE_ENCODERS_SHARED == kSharedEncoder);
static_assert(RSERVE_ENCODE_ALL == kEncodeAll);
static_assert(RSERVE_BACKEND_CUDA == static_cast<int>(Backend::kCuda));
static_assert(RSERVE_DEVICE_SHARING_TURNS == static_cast<int>(DeviceSharing::kTurns));
static_assert(RSERVE_DEVICE_SHARING_PARTS == static_cast<int>(DeviceSharing::kParts));

template <typename T>
absl::Status ReadList(const char* field, const int32_t* list, size_t count, std::vector<T>* out) {
  if (absl::Status status = CheckList(field, list, count, kMaxListEntries); !status.ok())
    return status;
  if (count > 0) out->assign(list, list + count);
  return absl::OkStatus();
}

absl::Status ReadPolicy(const rserve_engine_config& c, ModelEngineOptions* options) {
  if (c.scheme < RSERVE_SCHEME_RSERVE || c.scheme > RSERVE_SCHEME_ADAPTIVE) {
    return UnknownValue("scheme", c.scheme);
  }
  if ((c.flags & ~kKnownFlags) != 0) return UnknownValue("flags", c.flags & ~kKnownFlags);
  options->scheme = static_cast<Scheme>(c.scheme);
  absl::Status status = ReadEnum("gate", c.gate, Gate::kWholeRequest, &options->gate);
  status.Update(ReadEnum("sharing", c.sharing, Sharing::kOneRequest, &options->sharing));
  status.Update(ReadEnum("trigger", c.trigger, EncodeTrigger::kOnChunk, &options->trigger));
  options->encode_batch_tokens = c.encode_batch_tokens;
  options->token_budget = c.token_budget;
  if (c.encode_flush_ns != 0) options->encode_flush_ns = c.encode_flush_ns;
  options->max_micro_batches = c.max_micro_batches;
  options->one_chunk_in_flight = (c.flags & RSERVE_ENGINE_F_VANILLA_PP) != 0;
  options->encode_across_requests = (c.flags & RSERVE_ENGINE_F_ENCODE_ACROSS_REQUESTS) != 0;
  options->pin_threads = (c.flags & RSERVE_ENGINE_F_NO_PINNING) == 0;
  options->kv_reuse = (c.flags & RSERVE_ENGINE_F_KV_REUSE) != 0;
  return status;
}

absl::Status ReadChoice(const char* field, rserve_choice_t value, std::optional<bool>* out) {
  if (value == RSERVE_CHOICE_DEFAULT) return absl::OkStatus();
  if (value != RSERVE_CHOICE_YES && value != RSERVE_CHOICE_NO) return UnknownValue(field, value);
  *out = value == RSERVE_CHOICE_YES;
  return absl::OkStatus();
}

absl::Status ReadOrder(const rserve_engine_config& c, ModelEngineOptions* options) {
  absl::Status status = ReadEnum("order", c.order, Order::kFeasibleFirst, &options->order);
  options->order_stretch = c.order_stretch;
  options->order_guard_ns = c.order_guard_ns;
  options->slo_ns = c.slo_ns;
  options->min_token_budget = c.min_token_budget;
  status.Update(
      ReadChoice("square_root_budget", c.square_root_budget, &options->square_root_budget));
  status.Update(ReadChoice("adaptive_encode_batch", c.adaptive_encode_batch,
                           &options->adaptive_encode_batch));
  return status;
}

absl::Status ReadPlacement(const rserve_engine_config& c, ModelEngineOptions* options) {
  if (c.stages != 0) options->stages = c.stages;
  if (c.encoders != 0) options->encoders = c.encoders;
  if (c.media_threads != 0) options->media_threads = c.media_threads;
  options->threads = c.threads;
  absl::Status status =
      ReadList("stage_layers", c.stage_layers, c.num_stage_layers, &options->stage_layers);
  status.Update(
      ReadList("worker_threads", c.worker_threads, c.num_worker_threads, &options->worker_threads));
  status.Update(CheckList("worker_cores", c.worker_cores, c.num_worker_cores, kMaxListEntries));
  if (!status.ok()) return status;
  for (size_t i = 0; i < c.num_worker_cores; ++i) {
    const rserve_core_list& list = c.worker_cores[i];
    status = ReadList("worker_cores::cores", list.cores, list.num_cores,
                      &options->worker_cores.emplace_back());
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status ReadBackend(const rserve_engine_config& c, ModelEngineOptions* options) {
  if (c.backend < RSERVE_BACKEND_CPU || c.backend > RSERVE_BACKEND_CUDA) {
    return UnknownValue("backend", c.backend);
  }
  if (c.device_sharing < RSERVE_DEVICE_SHARING_STREAMS ||
      c.device_sharing > RSERVE_DEVICE_SHARING_PARTS) {
    return UnknownValue("device_sharing", c.device_sharing);
  }
  options->backend = static_cast<Backend>(c.backend);
  options->device_sharing = static_cast<DeviceSharing>(c.device_sharing);
  options->encoder_percent = c.encoder_percent;
  if (c.stage_handover < RSERVE_STAGE_HANDOVER_PEER ||
      c.stage_handover > RSERVE_STAGE_HANDOVER_HOST) {
    return UnknownValue("stage_handover", c.stage_handover);
  }
  options->stage_handover = static_cast<StageHandover>(c.stage_handover);
  options->graph_rows = c.graph_rows;
  options->deterministic = (c.flags & RSERVE_ENGINE_F_NOT_DETERMINISTIC) == 0;
  options->cudnn_attention = (c.flags & RSERVE_ENGINE_F_CUDNN_ATTENTION) != 0;
  options->device_embeddings = (c.flags & RSERVE_ENGINE_F_HOST_EMBEDDINGS) == 0;
  if (c.tensor_parallel != 0) options->tensor_parallel = c.tensor_parallel;
  absl::Status status =
      CheckList("cuda_library", c.cuda_library, c.cuda_library_length, kMaxListEntries);
  if (!status.ok()) return status;
  if (c.cuda_library_length > 0) {
    options->cuda_library.assign(c.cuda_library, c.cuda_library_length);
  }
  return ReadList("devices", c.devices, c.num_devices, &options->devices);
}

void ReadBudgets(const rserve_engine_config& c, ModelEngineOptions* options) {
  if (c.kv_block_tokens != 0) options->kv_block_tokens = c.kv_block_tokens;
  options->kv_tokens = c.kv_tokens;
  options->embedding_bytes = c.embedding_bytes;
  options->pixel_bytes = c.pixel_bytes;
  options->encoder_batch_tokens = c.encoder_batch_tokens;
  options->units_in_flight = c.units_in_flight;
  options->input_bytes = c.input_bytes;
  options->queue_requests = c.queue_requests;
  options->max_prompt_tokens = c.max_prompt_tokens;
  options->max_image_pixels = c.max_image_pixels;
  options->max_unacknowledged = c.max_unacknowledged;
  options->embedding_cache_bytes = c.embedding_cache_bytes;
}

}  // namespace

absl::StatusOr<ModelEngineOptions> ReadConfig(const rserve_engine_config* config) {
  rserve_engine_config c;
  absl::Status status = CopyIn("rserve_engine_config", config, kFirstConfigSize, &c);
  if (!status.ok()) return status;
  if (status = CheckNotNull(c.model_path, "model_path"); !status.ok()) return status;
  ModelEngineOptions options;
  options.model_path.assign(c.model_path, c.model_path_length);
  status = ReadPolicy(c, &options);
  status.Update(ReadOrder(c, &options));
  status.Update(ReadPlacement(c, &options));
  status.Update(ReadBackend(c, &options));
  if (!status.ok()) return status;
  ReadBudgets(c, &options);
  if (c.weights < RSERVE_WEIGHTS_STORED || c.weights > RSERVE_WEIGHTS_INT8) {
    return UnknownValue("weights", c.weights);
  }
  if (c.reserved != 0) return UnknownValue("reserved", c.reserved);
  options.weights = static_cast<Weights>(c.weights);
  return options;
}

}  // namespace rserve::capi
