// The command line's side of ModelEngineOptions: scheme, topology, C, B, cores and budgets.

#ifndef RSERVE_TOOLS_RSERVE_ENGINE_OPTIONS_H_
#define RSERVE_TOOLS_RSERVE_ENGINE_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "rserve/cc/model_engine.h"
#include "tools/rserve/options.h"

namespace rserve::tool {

// Ranks, stages and encoders of "PP4+E1", "TP1+E1", "TP2+E1", "TP2xPP2+E1", "PP3", "PP2+E2".
struct Topology {
  int32_t ranks = 1;  // of each stage
  int32_t stages = 1;
  int32_t encoders = 1;
  std::string name = "TP1+E1";
  bool chosen =
      false;  // by the user: scheme adaptive then does not choose whether cores are shared
};

// INVALID_ARGUMENT for anything else.
absl::StatusOr<Topology> ParseTopology(absl::string_view text);

// "rserve", "epd", ...
std::string SchemeText(Scheme scheme);

// C: a number of tokens, or "all" (all pictures of a request in one batch).
absl::StatusOr<int64_t> ParseEncodeBatch(absl::string_view text);
std::string EncodeBatchName(int64_t tokens);
// B: a number of tokens from 1.
absl::StatusOr<int64_t> ParseTokenBudget(absl::string_view text);

// What is not scheme, topology, C or B, which some commands take lists of.
struct EngineFlags {
  int64_t threads = 0;
  int64_t media_threads = 1;
  bool pin = true;
  std::vector<std::string> stage_layers;
  bool encode_across_requests = false;
  double encode_flush_ms = -1;  // below 0: no limit
  bool one_chunk_in_flight = false;
  std::optional<Order> order;
  int64_t order_stretch = 0;
  double order_guard_s = 0;
  double order_slo_s = 0;
  std::optional<bool> square_root_budget;
  std::optional<bool> adaptive_encode_batch;
  int64_t kv_tokens = 0;
  int64_t embedding_bytes = 0;
  int64_t pixel_bytes = 0;
  bool kv_reuse = false;
  int64_t encoder_batch_tokens = 0;
  int64_t max_prompt_tokens = 0;
  int64_t max_image_pixels = 0;
  Weights weights = Weights::kStored;
  Backend backend = Backend::kCpu;
  std::vector<std::string> devices;
  std::string cuda_library;
  DeviceSharing device_sharing = DeviceSharing::kStreams;
  int64_t encoder_percent = 0;
  StageHandover stage_handover = StageHandover::kPeer;
  int64_t graph_rows = 0;
  bool deterministic = true;
  bool cudnn_attention = false;
  bool device_embeddings = true;
};
void AddEngineFlags(OptionTable* table, EngineFlags* flags);

// "stored" or "int8".
absl::StatusOr<Weights> ParseWeights(absl::string_view text);

// One way of running a request set.
struct EngineCase {
  Scheme scheme = Scheme::kAdaptive;
  Topology topology;
  int64_t encode_batch = 1024;       // C
  int64_t token_budget = 2048;       // B
  bool encode_batch_chosen = false;  // by the user: scheme adaptive then keeps it
  std::string ToString() const;
  std::string EncodeBatchText() const;  // C, or "auto" where it follows the load
};

// Options of the single-case commands: --scheme, --topology, --encode-batch, --token-budget.
void AddCaseFlags(OptionTable* table, EngineCase* engine_case);

absl::StatusOr<ModelEngineOptions> MakeEngineOptions(const std::string& model,
                                                     const EngineCase& engine_case,
                                                     const EngineFlags& flags);

// Creates the engine behind a progress bar for its weights.
absl::StatusOr<std::unique_ptr<ModelEngine>> OpenEngine(ModelEngineOptions options);

}  // namespace rserve::tool

#endif  // RSERVE_TOOLS_RSERVE_ENGINE_OPTIONS_H_
