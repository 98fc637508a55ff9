#include "src/sim/scheme.h"

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace rserve::sim {

std::vector<std::string> SchemeNames() {
  return {"colocated", "vllm", "epd", "rserve_intra", "rserve", "adaptive"};
}

absl::Status ApplyScheme(std::string_view name, SimConfig* config) {
  const bool vllm = name == "vllm";
  absl::StatusOr<Scheme> scheme = vllm ? Scheme::kColocated : ParseScheme(name);
  if (!scheme.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "scheme is \"", std::string(name), "\"; known are ", absl::StrJoin(SchemeNames(), ", ")));
  }
  const bool own = config->layout.encoders > 0;
  if (*scheme != Scheme::kAdaptive && own == (*scheme == Scheme::kColocated)) {
    return absl::InvalidArgumentError(
        absl::StrCat("scheme ", std::string(name), own ? " puts" : " does not put",
                     " the encoder on stage 0's device; layout ", LayoutName(config->layout),
                     own ? " gives it one of its own" : " has none of its own"));
  }
  config->scheme = std::string(name);
  config->policy = SchemePolicy(*scheme);
  config->media_lanes = *scheme == Scheme::kAdaptive ? 16 : 0;
  config->first = Role::kStage;
  config->max_micro_batches = 0;
  if (*scheme == Scheme::kAdaptive) {
    config->max_micro_batches = AdaptiveMicroBatches(
        SchemePlacement(*scheme, config->layout.stages, config->layout.encoders));
  }
  if (vllm) {
    config->policy.gate = Gate::kStreaming;
    config->policy.trigger = EncodeTrigger::kOnChunk;
  }
  // gLLM and gLLM-epd encode all of a request in one call.
  if (config->policy.gate == Gate::kWholeRequest) config->policy.encode_batch_tokens = kEncodeAll;
  return absl::OkStatus();
}

}  // namespace rserve::sim
