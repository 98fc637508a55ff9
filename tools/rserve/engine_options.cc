#include "tools/rserve/engine_options.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "tools/rserve/progress.h"

namespace rserve::tool {
namespace {

constexpr int64_t kMaxWorkers = 1024;

absl::Status ParseOrder(absl::string_view text, std::optional<Order>* order) {
  if (text == "arrival") {
    *order = Order::kArrival;
  } else if (text == "shortest-first") {
    *order = Order::kShortestFirst;
  } else if (text == "feasible-first") {
    *order = Order::kFeasibleFirst;
  } else {
    return absl::InvalidArgumentError(absl::StrCat(
        "order '", text, "' is unknown; known are arrival, shortest-first, feasible-first"));
  }
  return absl::OkStatus();
}

absl::Status ParseOnOff(absl::string_view text, std::optional<bool>* value) {
  if (text != "on" && text != "off") {
    return absl::InvalidArgumentError(absl::StrCat("'", text, "' is neither on nor off"));
  }
  *value = text == "on";
  return absl::OkStatus();
}

bool ParseCount(absl::string_view text, int64_t* count) {
  return absl::SimpleAtoi(text, count) && *count >= 1 && *count <= kMaxWorkers;
}

}  // namespace

absl::StatusOr<Topology> ParseTopology(absl::string_view text) {
  const absl::Status malformed = absl::InvalidArgumentError(absl::StrCat(
      "'", text, "' is not a topology like TP1+E1, PP3+E1, TP2xPP2+E1 or PP4 (ranks of a stage, ",
      "stages, then encoders)"));
  const std::vector<absl::string_view> parts = absl::StrSplit(text, '+');
  absl::string_view rest = parts[0];
  int64_t rank_count = 1, stage_count = 1, encoder_count = 0;
  if (absl::ConsumePrefix(&rest, "TP")) {
    const std::pair<absl::string_view, absl::string_view> split =
        absl::StrSplit(rest, absl::MaxSplits('x', 1));
    if (!ParseCount(split.first, &rank_count)) return malformed;
    rest = split.second;
    const bool stages_too = split.first.size() < parts[0].size() - 2;
    if (stages_too && (!absl::ConsumePrefix(&rest, "PP") || !ParseCount(rest, &stage_count))) {
      return malformed;
    }
  } else if (!absl::ConsumePrefix(&rest, "PP") || !ParseCount(rest, &stage_count)) {
    return malformed;
  }
  if (parts.size() == 2) {
    absl::string_view encoders = parts[1];
    if (!absl::ConsumePrefix(&encoders, "E") || !ParseCount(encoders, &encoder_count)) {
      return malformed;
    }
  } else if (parts.size() > 2) {
    return malformed;
  }
  Topology topology;
  topology.ranks = static_cast<int32_t>(rank_count);
  topology.stages = static_cast<int32_t>(stage_count);
  topology.encoders = static_cast<int32_t>(encoder_count);
  topology.name = std::string(text);
  topology.chosen = true;
  return topology;
}

std::string SchemeText(Scheme scheme) { return std::string(SchemeName(scheme)); }

absl::StatusOr<int64_t> ParseEncodeBatch(absl::string_view text) {
  if (text == "all") return kEncodeAll;
  int64_t tokens = 0;
  if (!absl::SimpleAtoi(text, &tokens) || tokens < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("encode batch '", text, "' is not a number of tokens from 1, or all"));
  }
  return tokens;
}

std::string EncodeBatchName(int64_t tokens) {
  return tokens == kEncodeAll ? "all" : absl::StrCat(tokens);
}

absl::StatusOr<int64_t> ParseTokenBudget(absl::string_view text) {
  int64_t tokens = 0;
  if (!absl::SimpleAtoi(text, &tokens) || tokens < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("token budget '", text, "' is not a number of tokens from 1"));
  }
  return tokens;
}

std::string EngineCase::EncodeBatchText() const {
  if (scheme == Scheme::kAdaptive && !encode_batch_chosen) return "auto";
  return EncodeBatchName(encode_batch);
}

std::string EngineCase::ToString() const {
  return absl::StrCat(SchemeText(scheme), " ", topology.name, " C=", EncodeBatchText(),
                      " B=", token_budget);
}

void AddCaseFlags(OptionTable* table, EngineCase* engine_case) {
  table->Section("Scheme");
  table->Custom("scheme", "NAME", SchemeText(engine_case->scheme),
                "rserve, rserve_intra, epd, colocated or adaptive",
                [engine_case](absl::string_view text) {
                  const auto scheme = ParseScheme(std::string(text));
                  if (scheme.ok()) engine_case->scheme = *scheme;
                  return scheme.status();
                });
  table->Custom(
      "topology", "NAME", engine_case->topology.name,
      "ranks of a stage, stages and encoder workers: TP1+E1, PP3+E1, TP2xPP2+E1; without +E\n"
      "(colocated, adaptive) stage 0's worker encodes; by default adaptive measures which is "
      "better",
      [engine_case](absl::string_view text) {
        auto topology = ParseTopology(text);
        if (topology.ok()) engine_case->topology = *std::move(topology);
        return topology.status();
      });
  table->Custom("encode-batch", "C", EncodeBatchName(engine_case->encode_batch),
                "pictures are encoded in batches of at least C tokens; all: a request at once",
                [engine_case](absl::string_view text) {
                  const auto tokens = ParseEncodeBatch(text);
                  if (tokens.ok()) engine_case->encode_batch = *tokens;
                  engine_case->encode_batch_chosen = true;
                  return tokens.status();
                });
  table->Int("token-budget", "B", 1, INT64_MAX, &engine_case->token_budget,
             "a micro-batch holds at most B tokens");
}

absl::StatusOr<Weights> ParseWeights(absl::string_view text) {
  if (text == "stored") return Weights::kStored;
  if (text == "int8") return Weights::kInt8;
  return absl::InvalidArgumentError(absl::StrCat("weights '", text, "' are not stored or int8"));
}

void AddEngineFlags(OptionTable* table, EngineFlags* flags) {
  constexpr int64_t kMax32 = INT32_MAX;
  table->Section("Workers");
  table->Int("threads", "N", 0, 4096, &flags->threads,
             "threads of all workers together, dealt out evenly; 0: one a core");
  table->Int("media-threads", "N", 1, 256, &flags->media_threads,
             "threads that decode and resize pictures");
  table->Switch("pin", &flags->pin, "do not pin workers to cores");
  table->List("stage-layers", "N,N,..", &flags->stage_layers,
              "layers of each stage; default: even");
  table->Real("encode-flush", "MS", -1, 1e9, &flags->encode_flush_ms,
              "a batch below C waits at most so long for the next picture to be prepared; -1: no "
              "limit, 0: not at all");
  table->Switch("encode-across-requests", &flags->encode_across_requests,
                "an encode batch may hold pictures of several requests");
  table->Switch("one-chunk-in-flight", &flags->one_chunk_in_flight,
                "plain instead of chunked pipeline parallelism");
  table->Section("Weights");
  table->Custom("weights", "FORMAT", "stored",
                "stored: as the checkpoint has them; int8: the layers' matrices in 8 bits, faster, "
                "with other logits",
                [flags](absl::string_view text) {
                  const auto weights = ParseWeights(text);
                  if (weights.ok()) flags->weights = *weights;
                  return weights.status();
                });
  table->Section("Backend");
  table->Custom("backend", "NAME", std::string(BackendName(flags->backend)),
                "cpu, or cuda: NVIDIA GPUs, with librserve_cuda.so",
                [flags](absl::string_view text) {
                  const auto backend = ParseBackend(std::string(text));
                  if (backend.ok()) flags->backend = *backend;
                  return backend.status();
                });
  table->List("devices", "N,N,..", &flags->devices,
              "GPUs: one a rank of each stage, then one an encoder; one: everything is there; "
              "default: 0");
  table->String("cuda-library", "FILE", &flags->cuda_library,
                "default: librserve_cuda.so beside the command or in ../lib, else the system's");
  table->Custom("device-sharing", "NAME", std::string(DeviceSharingName(flags->device_sharing)),
                "encoder and stage on one GPU: streams (side by side), turns (one after another) "
                "or parts (multiprocessors of their own)",
                [flags](absl::string_view text) {
                  const auto sharing = ParseDeviceSharing(std::string(text));
                  if (sharing.ok()) flags->device_sharing = *sharing;
                  return sharing.status();
                });
  table->Int("encoder-percent", "N", 0, 99, &flags->encoder_percent,
             "of the GPU's multiprocessors, with parts; 0: 25");
  table->Custom("stage-handover", "NAME", std::string(StageHandoverName(flags->stage_handover)),
                "hidden states from GPU to GPU: peer (copies), nccl, or host (through its memory)",
                [flags](absl::string_view text) {
                  const auto handover = ParseStageHandover(std::string(text));
                  if (handover.ok()) flags->stage_handover = *handover;
                  return handover.status();
                });
  table->Int("graph-rows", "N", -1, int64_t{1} << 30, &flags->graph_rows,
             "work on at most so many rows is recorded as CUDA graphs; 0: 1024; -1: none");
  table->Switch("deterministic", &flags->deterministic,
                "do not hold a row to the same bits whatever its batch; a little faster");
  table->Switch("cudnn-attention", &flags->cudnn_attention,
                "cuDNN's attention in the vision tower, with --no-deterministic");
  table->Switch("device-embeddings", &flags->device_embeddings,
                "pictures' embeddings go through host memory instead of staying on the GPUs");
  table->Section("Order and what follows the load (default: the scheme's)");
  table->Custom("order", "NAME", "",
                "arrival, shortest-first, or feasible-first: those that can still meet --order-slo",
                [flags](absl::string_view text) { return ParseOrder(text, &flags->order); });
  table->Int("order-stretch", "N", 0, 1000, &flags->order_stretch,
             "how many times its own work a request may be passed; 0: 8");
  table->Real("order-guard", "SECONDS", 0, 1e6, &flags->order_guard_s,
              "but by none that came so long after it; 0: the scheme's");
  table->Real("order-slo", "SECONDS", 0, 1e6, &flags->order_slo_s,
              "feasible-first: the time to first token that counts");
  table->Custom(
      "square-root-budget", "on|off", "", "B follows the load, up to --token-budget",
      [flags](absl::string_view text) { return ParseOnOff(text, &flags->square_root_budget); });
  table->Custom(
      "adaptive-encode-batch", "on|off", "", "C follows the load",
      [flags](absl::string_view text) { return ParseOnOff(text, &flags->adaptive_encode_batch); });
  table->Section("Budgets (0: a default that fits the model)");
  table->Int("kv-tokens", "N", 0, int64_t{1} << 40, &flags->kv_tokens, "tokens in the KV cache");
  table->Switch("kv-reuse", &flags->kv_reuse,
                "prompts that begin as earlier ones did reuse their KV (off: measurements)");
  table->Bytes("embedding-bytes", &flags->embedding_bytes,
               "embeddings encoded and not yet prefilled");
  table->Bytes("pixel-bytes", &flags->pixel_bytes, "prepared pictures not yet encoded");
  table->Int("encoder-batch-tokens", "N", 0, kMax32, &flags->encoder_batch_tokens,
             "tokens of one encode batch, at most");
  table->Int("max-prompt-tokens", "N", 0, kMax32, &flags->max_prompt_tokens,
             "a longer prompt is refused");
  table->Int("max-image-pixels", "N", 0, int64_t{1} << 40, &flags->max_image_pixels,
             "width * height of a picture file; a larger one is refused");
}

absl::StatusOr<ModelEngineOptions> MakeEngineOptions(const std::string& model,
                                                     const EngineCase& engine_case,
                                                     const EngineFlags& flags) {
  ModelEngineOptions options;
  options.model_path = model;
  options.scheme = engine_case.scheme;
  const bool adaptive = engine_case.scheme == Scheme::kAdaptive;
  if (engine_case.scheme != Scheme::kColocated && !adaptive && engine_case.topology.encoders == 0) {
    return absl::InvalidArgumentError(absl::StrCat("scheme ", SchemeText(engine_case.scheme),
                                                   " needs an encoder worker; use --topology ",
                                                   engine_case.topology.name, "+E1"));
  }
  options.tensor_parallel = engine_case.topology.ranks;
  options.stages = engine_case.topology.stages;
  options.encoders = std::max(engine_case.topology.encoders, 1);
  options.encode_batch_tokens = engine_case.encode_batch;
  if (adaptive) {
    if (engine_case.topology.encoders == 0) options.encoders = kSharedEncoder;
    if (!engine_case.topology.chosen) options.encoders = 0;
    if (!engine_case.encode_batch_chosen) options.encode_batch_tokens = 0;
  }
  options.token_budget = engine_case.token_budget;
  for (const std::string& layers : flags.stage_layers) {
    int32_t count = 0;
    if (!absl::SimpleAtoi(layers, &count) || count < 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("--stage-layers: '", layers, "' is not a number of layers from 1"));
    }
    options.stage_layers.push_back(count);
  }
  options.threads = static_cast<int32_t>(flags.threads);
  options.media_threads = static_cast<int32_t>(flags.media_threads);
  options.pin_threads = flags.pin;
  options.encode_across_requests = flags.encode_across_requests;
  if (flags.encode_flush_ms >= 0) {
    options.encode_flush_ns = static_cast<TimeNs>(flags.encode_flush_ms * 1e6);
  }
  options.one_chunk_in_flight = flags.one_chunk_in_flight;
  options.order = flags.order;
  options.order_stretch = flags.order_stretch;
  options.order_guard_ns = static_cast<TimeNs>(flags.order_guard_s * 1e9);
  options.slo_ns = static_cast<TimeNs>(flags.order_slo_s * 1e9);
  options.square_root_budget = flags.square_root_budget;
  options.adaptive_encode_batch = flags.adaptive_encode_batch;
  options.kv_tokens = flags.kv_tokens;
  options.embedding_bytes = flags.embedding_bytes;
  options.pixel_bytes = flags.pixel_bytes;
  options.kv_reuse = flags.kv_reuse;
  options.encoder_batch_tokens = flags.encoder_batch_tokens;
  options.max_prompt_tokens = flags.max_prompt_tokens;
  options.max_image_pixels = flags.max_image_pixels;
  options.weights = flags.weights;
  options.backend = flags.backend;
  for (const std::string& device : flags.devices) {
    if (!absl::SimpleAtoi(device, &options.devices.emplace_back())) {
      return absl::InvalidArgumentError(
          absl::StrCat("--devices: '", device, "' is not the number of a GPU"));
    }
  }
  options.cuda_library = flags.cuda_library;
  options.device_sharing = flags.device_sharing;
  options.encoder_percent = static_cast<int32_t>(flags.encoder_percent);
  options.stage_handover = flags.stage_handover;
  options.graph_rows = static_cast<int32_t>(flags.graph_rows);
  options.deterministic = flags.deterministic;
  options.cudnn_attention = flags.cudnn_attention;
  options.device_embeddings = flags.device_embeddings;
  return options;
}

absl::StatusOr<std::unique_ptr<ModelEngine>> OpenEngine(ModelEngineOptions options) {
  auto progress = std::make_shared<Progress>("loading");
  options.load_progress = [progress](int64_t done, int64_t total) {
    progress->Update(done, total);
  };
  auto engine = ModelEngine::Create(std::move(options));
  progress->Finish();
  return engine;
}

}  // namespace rserve::tool
