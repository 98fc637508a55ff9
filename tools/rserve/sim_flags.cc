#include "tools/rserve/sim_flags.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "src/sim/config_json.h"
#include "src/sim/scheme.h"
#include "tools/rserve/files.h"

namespace rserve::tool {

void AddSystemFlags(OptionTable* table, SystemFlags* flags) {
  table->Section("System");
  table->String("config", "FILE", &flags->config_file,
                "JSON with any of model, hardware, calibration, layout, layers, scheme, policy; it "
                "replaces what the options say");
  table->String("model", "NAME", &flags->model, "3b, 7b, 32b or 72b");
  table->String("hardware", "NAME", &flags->hardware, "h100, a100-40g or h200");
  table->String("calibration", "NAME", &flags->calibration, "a or b");
  table->String("layout", "LAYOUT", &flags->layout,
                "PPn or TPn, with +Em for m encoders of their own");
  table->String("scheme", "NAME", &flags->scheme, absl::StrJoin(sim::SchemeNames(), ", "));
  table->List("layers", "N,N,...", &flags->layers, "layers of each stage; default: even");
  table->Int("encode-batch", "C", 0, INT64_MAX, &flags->encode_batch,
             "tokens an encode batch waits for; 0: the scheme's");
  table->Int("token-budget", "B", 0, INT64_MAX, &flags->token_budget,
             "tokens of a micro-batch, at most; 0: the scheme's");
  table->Int("media-lanes", "N", -1, 4096, &flags->media_lanes,
             "host cores that prepare pictures; 0: the encoder's worker; -1: the scheme's");
  table->Bytes("embedding-bytes", &flags->embedding_bytes, "budget of embeddings; 0: no limit");
  table->Int("kv-tokens", "N", 0, int64_t{1} << 40, &flags->kv_tokens,
             "tokens of the KV cache; 0: no limit");
  table->Int(
      "order-stretch", "N", -1, 1000, &flags->order_stretch,
      "how many times its own work a request may be passed; 0: first come; -1: the scheme's");
  table->Real("slo", "SECONDS", 0, 1e6, &flags->slo_s, "limit of TTFT that is reported; 0: none");
  table->Switch("feasible-first", &flags->feasible_first,
                "serve those that can still meet the SLO before those that cannot");
}

void AddWorkloadFlags(OptionTable* table, WorkloadFlags* flags) {
  table->Section("Workload");
  table->String("workload", "NAME", &flags->kind, absl::StrJoin(sim::WorkloadKindNames(), ", "));
  table->String("requests-file", "FILE", &flags->file,
                "JSONL with arrivals and sizes, in the place of a generated workload");
  table->String("arrivals", "NAME", &flags->arrivals, "poisson, bursty or at-once");
  table->Real("rate", "R", 1e-6, 1e6, &flags->rate, "requests a second");
  table->Int("burst", "N", 1, 1 << 20, &flags->burst, "requests of a burst");
  table->Int("requests", "N", 1, 10'000'000, &flags->requests, "how many");
  table->Int("seed", "N", 0, INT64_MAX / 4, &flags->seed, "of the generator");
  table->Int("fixed-items", "N", 0, 4096, &flags->fixed_items, "workload fixed: pictures");
  table->Int("fixed-item-tokens", "N", 1, 1 << 20, &flags->fixed_item_tokens,
             "workload fixed: tokens of each picture");
  table->Int("fixed-text-tokens", "N", 1, 1 << 24, &flags->fixed_text_tokens,
             "workload fixed: tokens of text");
}

absl::StatusOr<sim::WorkloadSpec> MakeSpec(const WorkloadFlags& flags) {
  sim::WorkloadSpec spec;
  absl::StatusOr<sim::WorkloadKind> kind = sim::ParseWorkloadKind(flags.kind);
  if (!kind.ok()) return kind.status();
  spec.kind = *kind;
  if (flags.arrivals == "poisson") {
    spec.arrivals = sim::ArrivalKind::kPoisson;
  } else if (flags.arrivals == "bursty") {
    spec.arrivals = sim::ArrivalKind::kBursty;
  } else if (flags.arrivals == "at-once") {
    spec.arrivals = sim::ArrivalKind::kAtOnce;
  } else {
    return absl::InvalidArgumentError(
        absl::StrCat("--arrivals is \"", flags.arrivals, "\"; known are poisson, bursty, at-once"));
  }
  spec.rate = flags.rate;
  spec.burst = flags.burst;
  spec.requests = flags.requests;
  spec.seed = static_cast<uint64_t>(flags.seed);
  spec.fixed_items = flags.fixed_items;
  spec.fixed_item_tokens = flags.fixed_item_tokens;
  spec.fixed_text_tokens = flags.fixed_text_tokens;
  return spec;
}

absl::StatusOr<std::vector<sim::SimRequest>> MakeWorkload(const WorkloadFlags& flags) {
  if (!flags.file.empty()) {
    absl::StatusOr<std::string> text = ReadTextFile(flags.file);
    if (!text.ok()) return text.status();
    auto requests = sim::FromJsonl(*text);
    if (!requests.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat(flags.file, ": ", std::string(requests.status().message())));
    }
    return requests;
  }
  absl::StatusOr<sim::WorkloadSpec> spec = MakeSpec(flags);
  if (!spec.ok()) return spec.status();
  return sim::DrainSource(*sim::MakeSource(*spec));
}

absl::StatusOr<sim::SimConfig> MakeSystem(const SystemFlags& flags, const std::string& scheme,
                                          const std::string& layout,
                                          const WorkloadFlags& workload) {
  sim::SimConfig config;
  auto model = sim::FindModelShape(flags.model);
  if (!model.ok()) return model.status();
  auto hardware = sim::FindHardware(flags.hardware);
  if (!hardware.ok()) return hardware.status();
  auto calibration = sim::FindCalibration(flags.calibration);
  if (!calibration.ok()) return calibration.status();
  auto parsed = sim::ParseLayout(layout);
  if (!parsed.ok()) return parsed.status();
  config.model = *model;
  config.hardware = *hardware;
  config.calibration = *calibration;
  config.layout = *parsed;
  if (absl::Status s = sim::ApplyScheme(scheme, &config); !s.ok()) return s;
  for (const std::string& text : flags.layers) {
    int64_t layers = 0;
    if (!absl::SimpleAtoi(text, &layers)) {
      return absl::InvalidArgumentError(absl::StrCat("--layers: \"", text, "\" is no number"));
    }
    config.layout.layers.push_back(layers);
  }
  if (flags.encode_batch > 0) {
    config.policy.encode_batch_tokens = flags.encode_batch;
    config.policy.adaptive_encode_batch = false;
  }
  if (flags.token_budget > 0) config.policy.token_budget = flags.token_budget;
  if (flags.media_lanes >= 0) config.media_lanes = static_cast<int32_t>(flags.media_lanes);
  if (flags.embedding_bytes > 0) config.embedding_bytes = flags.embedding_bytes;
  config.kv_tokens = flags.kv_tokens;
  config.slo_s = flags.slo_s;
  if (flags.order_stretch >= 0) {
    config.policy.order_stretch = flags.order_stretch;
    config.policy.order = flags.order_stretch > 0 ? Order::kShortestFirst : Order::kArrival;
  }
  if (flags.feasible_first) {
    if (flags.slo_s <= 0) return absl::InvalidArgumentError("--feasible-first needs --slo");
    config.policy.order = Order::kFeasibleFirst;
    config.policy.slo_ns = static_cast<TimeNs>(
        1e9 * std::max(1e-9, flags.slo_s - config.calibration.front_end_ms * 1e-3));
  }
  if (!flags.config_file.empty()) {
    absl::StatusOr<std::string> text = ReadTextFile(flags.config_file);
    if (!text.ok()) return text.status();
    if (absl::Status s = sim::FromJson(*text, &config); !s.ok()) return s;
  }
  if (config.scheme == "adaptive" && config.layout.layers.empty()) {
    absl::StatusOr<sim::WorkloadSpec> spec = MakeSpec(workload);
    if (!spec.ok()) return spec.status();
    config.layout.layers = sim::BalancedLayers(config, *spec);
  }
  return config;
}

}  // namespace rserve::tool
