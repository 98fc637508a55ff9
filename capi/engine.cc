// Engine: create, destroy, and what one can ask of it.

#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "absl/strings/string_view.h"
#include "capi/config.h"
#include "capi/engine_handle.h"
#include "capi/stats.h"
#include "capi/structs.h"
#include "rserve/rserve.h"

namespace rserve::capi {

namespace {

absl::StatusOr<std::unique_ptr<rserve_engine>> CreateEngine(const rserve_engine_config* config) {
  TakenCallbacks callbacks = TakeCallbacks(*config);
  if (!callbacks.status.ok()) return callbacks.status;
  absl::StatusOr<ModelEngineOptions> options = ReadConfig(config);
  if (!options.ok()) return options.status();
  std::unique_ptr<rserve_engine> handle(new rserve_engine{.owner = getpid(),
                                                          .log = std::move(callbacks.log),
                                                          .model = nullptr,
                                                          .host = nullptr,
                                                          .completions = nullptr,
                                                          .gate = {},
                                                          .polling = false,
                                                          .events = {}});
  handle->events.reserve(kPollStep);
  options->log = [log = &handle->log](int32_t level, const std::string& message) {
    WriteLog(log->get(), level, message);
  };
  const rserve_load_progress& progress = callbacks.progress.get();
  if (progress.report != nullptr) {
    options->load_progress = [&progress](int64_t done_bytes, int64_t total_bytes) {
      progress.report(progress.ctx, done_bytes, total_bytes);
    };
  }
  auto engine = ModelEngine::Create(*std::move(options));
  if (!engine.ok()) return engine.status();
  handle->model = *std::move(engine);
  return handle;
}

rserve_model_info MakeModelInfo(const ModelInfo& from) {
  rserve_model_info info{};
  info.vocab_size = from.vocab_size;
  info.hidden_size = from.hidden_size;
  info.num_layers = from.num_layers;
  info.num_heads = from.num_heads;
  info.num_kv_heads = from.num_kv_heads;
  info.head_dim = from.head_dim;
  info.max_position_embeddings = from.max_position_embeddings;
  info.vision_depth = from.vision_depth;
  info.vision_hidden_size = from.vision_hidden_size;
  info.vision_heads = from.vision_heads;
  info.patch_size = from.patch_size;
  info.merge_size = from.merge_size;
  info.num_workers = static_cast<int32_t>(from.workers.size());
  info.min_pixels = from.min_pixels;
  info.max_pixels = from.max_pixels;
  info.weight_bytes = from.weight_bytes;
  info.kv_bytes_per_token = from.kv_bytes_per_token;
  info.kv_blocks = from.core.budgets.kv_blocks;
  info.load_ns = static_cast<int64_t>(from.load_seconds * 1e9);
  return info;
}

}  // namespace

}  // namespace rserve::capi

using namespace rserve::capi;  // NOLINT(google-build-using-namespace): the shim of that namespace

extern "C" {

rserve_status_t rserve_scheme_parse(const char* name, size_t name_length, rserve_scheme_t* scheme,
                                    rserve_error** err) {
  return Guard(err, [&]() -> absl::Status {
    absl::Status status = CheckNotNull(name, "name");
    status.Update(CheckNotNull(scheme, "scheme"));
    if (!status.ok()) return status;
    absl::StatusOr<rserve::Scheme> parsed =
        rserve::ParseScheme(std::string_view(name, name_length));
    if (!parsed.ok()) return parsed.status();
    *scheme = static_cast<rserve_scheme_t>(*parsed);
    return absl::OkStatus();
  });
}

rserve_status_t rserve_engine_create(const rserve_engine_config* config, rserve_engine** engine,
                                     rserve_error** err) {
  return Guard(err, [&]() -> absl::Status {
    absl::Status status = CheckNotNull(config, "config");
    if (!status.ok()) return status;
    if (engine == nullptr) {
      TakeCallbacks(*config);  // consumed on every failure
      return CheckNotNull(engine, "engine");
    }
    absl::StatusOr<std::unique_ptr<rserve_engine>> made = CreateEngine(config);
    if (!made.ok()) return made.status();
    *engine = made->release();
    return absl::OkStatus();
  });
}

void rserve_engine_destroy(rserve_engine* engine) {
  if (engine == nullptr || engine->owner != getpid()) return;
  engine->gate.Close();
  engine->model.reset();
  engine->host.reset();
  // Ended while the handle is whole: a host that calls back from there gets an error, not a crash.
  { const LogCallback log(std::move(engine->log)); }
  delete engine;
}

rserve_status_t rserve_engine_get_model_info(const rserve_engine* engine, rserve_model_info* info,
                                             rserve_error** err) {
  return WithModel(engine, err, [&](const rserve::ModelEngine& model_engine) -> absl::Status {
    if (absl::Status status = CheckNotNull(info, "info"); !status.ok()) return status;
    return CopyOut("rserve_model_info", MakeModelInfo(model_engine.info()),
                   sizeof(rserve_model_info), info);
  });
}

rserve_status_t rserve_engine_get_stats(const rserve_engine* engine, rserve_stats* stats,
                                        rserve_error** err) {
  return WithEngine(engine, err, [&](const auto& any) -> absl::Status {
    if (absl::Status status = CheckNotNull(stats, "stats"); !status.ok()) return status;
    rserve_stats made = MakeStats(any.stats(), any.idle());
    if constexpr (std::is_same_v<decltype(any), const rserve::ModelEngine&>) {
      AddCacheStats(any.embedding_cache_stats(), &made);
    }
    return CopyOut("rserve_stats", made, kFirstStatsSize, stats);
  });
}

rserve_status_t rserve_engine_decode(const rserve_engine* engine, const int32_t* tokens,
                                     size_t num_tokens, char* text, size_t capacity, size_t* length,
                                     rserve_error** err) {
  return WithModel(engine, err, [&](const rserve::ModelEngine& model_engine) -> absl::Status {
    absl::Status status = CheckNotNull(length, "length");
    if (num_tokens > 0) status.Update(CheckNotNull(tokens, "tokens"));
    if (capacity > 0) status.Update(CheckNotNull(text, "text"));
    if (!status.ok()) return status;
    const std::string decoded = model_engine.Decode(absl::MakeConstSpan(tokens, num_tokens));
    std::copy_n(decoded.data(), std::min(decoded.size(), capacity), text);
    *length = decoded.size();
    return absl::OkStatus();
  });
}

}  // extern "C"
