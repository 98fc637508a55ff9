#include "src/sim/cost_model.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace rserve::sim {
namespace {

TimeNs FromSeconds(double seconds) { return static_cast<TimeNs>(std::llround(seconds * 1e9)); }

template <typename T>
absl::StatusOr<T> FindByName(const char* what, std::string_view name, const std::vector<T>& all) {
  std::string known;
  for (const T& one : all) {
    if (one.name == name) return one;
    absl::StrAppend(&known, known.empty() ? "" : ", ", one.name);
  }
  return absl::InvalidArgumentError(
      absl::StrCat(what, " is \"", std::string(name), "\"; known are ", known));
}

Hardware MakeHardware(const char* name, double tflops, double memory_gb_s, double memory_gb,
                      double point_to_point, double all_reduce) {
  Hardware hardware;
  hardware.name = name;
  hardware.peak_tflops = tflops;
  hardware.memory_gb_s = memory_gb_s;
  hardware.memory_gb = memory_gb;
  hardware.point_to_point_gb_s = point_to_point;
  hardware.all_reduce_bus_gb_s = all_reduce;
  return hardware;
}

}  // namespace

const std::vector<Hardware>& HardwarePresets() {
  static const auto& presets = *new std::vector<Hardware>{
      MakeHardware("h100", 989, 3350, 80, 200, 110),
      // The paper's A100s hang on PCIe: no NVLink between them.
      MakeHardware("a100-40g", 312, 1555, 40, 20, 10),
      MakeHardware("h200", 989, 4800, 141, 200, 110),
  };
  return presets;
}

absl::StatusOr<Hardware> FindHardware(std::string_view name) {
  return FindByName("hardware", name, HardwarePresets());
}

absl::StatusOr<Calibration> FindCalibration(std::string_view name) {
  Calibration a;
  a.name = "a";
  a.mfu_linear = 0.60;
  a.request_ms = 150;
  a.received_us_per_token = 5;
  return FindByName("calibration", name, std::vector<Calibration>{a, Calibration()});
}

CostModel::CostModel(ModelShape model, Hardware hardware, Calibration calibration,
                     std::optional<FittedCosts> fitted)
    : model_(std::move(model)),
      hardware_(std::move(hardware)),
      calibration_(std::move(calibration)),
      fitted_(std::move(fitted)) {}

TimeNs CostModel::StageNs(const StageCost& stage, absl::Span<const ChunkWork> chunks,
                          bool embeddings_local) const {
  if (fitted_.has_value()) {
    const FittedStage& costs = fitted_->stages[static_cast<size_t>(stage.stage)];
    double ns = costs.fixed_ns;
    for (const ChunkWork& chunk : chunks) {
      ns += costs.token_ns * static_cast<double>(chunk.tokens) +
            costs.pair_ns * static_cast<double>(AttentionPairs(chunk.tokens, chunk.past)) +
            (chunk.last ? costs.finished_ns : 0);
    }
    return std::llround(ns);
  }
  const LanguageShape& language = model_.language;
  int64_t tokens = 0, received = 0, requests = 0;
  double attention = 0;
  for (const ChunkWork& chunk : chunks) {
    tokens += chunk.tokens;
    received += chunk.embedding_rows;
    requests += chunk.first ? 1 : 0;
    attention += AttentionFlops(language, chunk.tokens, chunk.past);
  }
  const double peak = hardware_.peak_tflops * 1e12;
  const double compute = LinearFlops(language, tokens) / (peak * calibration_.mfu_linear);
  const double weights =
      2.0 * static_cast<double>(MatmulParams(language)) / (hardware_.memory_gb_s * 1e9);
  const double share = static_cast<double>(stage.layers) / static_cast<double>(language.layers);
  double seconds = (std::max(compute, weights) + attention / (peak * calibration_.mfu_attention)) *
                   share / stage.ranks;
  seconds +=
      (stage.ranks > 1 ? calibration_.tp_micro_batch_ms : calibration_.micro_batch_ms) * 1e-3;
  TimeNs ns = 0;
  if (stage.stage == 0) {
    seconds += static_cast<double>(requests) * calibration_.request_ms * 1e-3;
    if (!embeddings_local) {
      seconds += static_cast<double>(received) * calibration_.received_us_per_token * 1e-6;
    }
  } else {
    ns += HandoverNs(tokens);
  }
  if (stage.ranks > 1) ns += 2 * stage.layers * AllReduceNs(tokens, language.hidden, stage.ranks);
  return ns + FromSeconds(seconds);
}

TimeNs CostModel::AllReduceNs(int64_t rows, int64_t width, int32_t ranks) const {
  const double bytes = static_cast<double>(rows * width * 2);
  const double factor = 2.0 * (ranks - 1) / ranks;
  return FromSeconds(hardware_.all_reduce_latency_us * 1e-6 +
                     factor * bytes / (hardware_.all_reduce_bus_gb_s * 1e9));
}

TimeNs CostModel::HandoverNs(int64_t tokens) const {
  // Hidden state and residual.
  const double bytes = static_cast<double>(2 * tokens * model_.language.hidden * 2);
  return FromSeconds(hardware_.handover_us * 1e-6 + bytes / (hardware_.point_to_point_gb_s * 1e9));
}

TimeNs CostModel::EncodeNs(absl::Span<const int64_t> item_tokens, int32_t ranks) const {
  if (fitted_.has_value()) {
    double ns = fitted_->encode_ns;
    for (int64_t tokens : item_tokens) ns += fitted_->encode_token_ns * static_cast<double>(tokens);
    return std::llround(ns);
  }
  double flops = 0;
  int64_t patches = 0;
  for (int64_t tokens : item_tokens) {
    flops += EncodeFlops(model_.vision, tokens);
    patches += tokens * model_.vision.patches_per_token;
  }
  TimeNs ns = 0;
  if (ranks > 1) ns = 2 * model_.vision.depth * AllReduceNs(patches, model_.vision.hidden, ranks);
  return ns + FromSeconds(flops / (hardware_.peak_tflops * 1e12 * calibration_.mfu_vision * ranks) +
                          calibration_.encode_batch_ms * 1e-3);
}

TimeNs CostModel::HostNs(int64_t item_tokens) const {
  if (fitted_.has_value()) {
    return std::llround(fitted_->prepare_ns +
                        fitted_->prepare_token_ns * static_cast<double>(item_tokens));
  }
  return FromSeconds(calibration_.host_ms_per_item * 1e-3 +
                     calibration_.host_us_per_token * 1e-6 * static_cast<double>(item_tokens));
}

TimeNs CostModel::TransferNs(int64_t tokens) const {
  if (fitted_.has_value()) return 0;  // one memory
  const double bytes = static_cast<double>(tokens * EmbeddingBytesPerToken(model_.language));
  return FromSeconds(calibration_.transfer_ms * 1e-3 + bytes / (hardware_.embedding_gb_s * 1e9));
}

TimeNs CostModel::FrontEndNs() const {
  if (fitted_.has_value()) return std::llround(fitted_->front_end_ns);
  return FromSeconds(calibration_.front_end_ms * 1e-3);
}

}  // namespace rserve::sim
