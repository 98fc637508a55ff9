#include "tools/rserve/sim_flags.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "src/sim/config_json.h"
#include "src/sim/scheme.h"
#include "tools/rserve/engine_options.h"
#include "tools/rserve/files.h"
#include "tools/rserve/text.h"

namespace rserve::tool {

namespace {

// Declares what a command does not leave out.
bool Has(Names without, std::string_view name) {
  return std::find(without.begin(), without.end(), name) == without.end();
}

}  // namespace

void AddSystemFlags(OptionTable* table, SystemFlags* flags, Names without) {
  flags->cases = !Has(without, "scheme");
  table->Section("System");
  table->String("config", "FILE", &flags->config_file,
                flags->cases ? "JSON of which model, hardware and calibration replace what the "
                               "options say; cases keep their schemes and layouts"
                             : "JSON with any of model, hardware, calibration, layout, layers, "
                               "scheme, policy; it replaces what the options say");
  table->String("model", "NAME", &flags->model, "3b, 7b, 32b or 72b");
  table->String("hardware", "NAME", &flags->hardware, "h100, a100-40g or h200");
  table->String("calibration", "NAME", &flags->calibration, "a or b");
  if (Has(without, "layout")) {
    table->String("layout", "LAYOUT", &flags->layout,
                  "PPn or TPn, with +Em for m encoders of their own");
  }
  if (!flags->cases) {
    table->String("scheme", "NAME", &flags->scheme, absl::StrJoin(sim::SchemeNames(), ", "));
  }
  if (Has(without, "layers")) {
    table->List("layers", "N,N,...", &flags->layers, "layers of each stage; default: even");
  }
  if (Has(without, "encode-batch")) {
    table->Custom("encode-batch", "C", "the scheme's",
                  "tokens an encode batch waits for; all: a request's pictures at once",
                  [flags](absl::string_view text) {
                    const absl::StatusOr<int64_t> tokens = ParseEncodeBatch(text);
                    if (tokens.ok()) flags->encode_batch = *tokens;
                    return tokens.status();
                  });
  }
  if (Has(without, "token-budget")) {
    table->Int("token-budget", "B", 0, INT64_MAX, &flags->token_budget,
               "tokens of a micro-batch, at most; 0: the scheme's");
  }
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

void AddWorkloadFlags(OptionTable* table, WorkloadFlags* flags, Names without) {
  table->Section("Workload");
  table->String("workload", "NAME", &flags->kind, absl::StrJoin(sim::WorkloadKindNames(), ", "));
  if (Has(without, "requests-file")) {
    table->String("requests-file", "FILE", &flags->file,
                  "JSONL with arrivals and sizes, in the place of a generated workload");
  }
  table->String("arrivals", "NAME", &flags->arrivals, "poisson, bursty or at-once");
  if (Has(without, "rate")) {
    table->Real("rate", "R", 1e-6, 1e6, &flags->rate, "requests a second");
  }
  table->Int("burst", "N", 1, 1 << 20, &flags->burst, "requests of a burst");
  table->Int("requests", "N", 1, 10'000'000, &flags->requests, "how many");
  if (Has(without, "seed")) {
    table->Int("seed", "N", 0, INT64_MAX / 4, &flags->seed, "of the generator");
  }
  table->Int("fixed-items", "N", 0, 4096, &flags->fixed_items, "workload fixed: pictures");
  table->Int("fixed-item-tokens", "N", 1, 1 << 20, &flags->fixed_item_tokens,
             "workload fixed: tokens of each picture");
  table->Int("fixed-text-tokens", "N", 1, 1 << 24, &flags->fixed_text_tokens,
             "workload fixed: tokens of text");
}

namespace {

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

absl::StatusOr<std::vector<sim::SimRequest>> ReadRequests(const std::string& file) {
  absl::StatusOr<std::string> text = ReadTextFile(file);
  if (!text.ok()) return text.status();
  auto requests = sim::FromJsonl(*text);
  if (!requests.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(file, ": ", std::string(requests.status().message())));
  }
  if (requests->empty()) {
    return absl::InvalidArgumentError(absl::StrCat(file, " has no requests"));
  }
  return requests;
}

// What the file gives, in the place of what the options did.
absl::Status ReadConfig(const SystemFlags& flags, sim::SimConfig* config) {
  absl::StatusOr<std::string> text = ReadTextFile(flags.config_file);
  if (!text.ok()) return text.status();
  sim::SimConfig read = *config;
  if (absl::Status s = sim::FromJson(*text, &read); !s.ok()) {
    return absl::Status(s.code(), absl::StrCat(flags.config_file, ": ", s.message()));
  }
  if (!flags.cases) {
    *config = std::move(read);
    return absl::OkStatus();
  }
  config->model = std::move(read.model);
  config->hardware = std::move(read.hardware);
  config->calibration = std::move(read.calibration);
  return absl::OkStatus();
}

absl::Status ApplyPolicyFlags(const SystemFlags& flags, sim::SimConfig* config) {
  Policy& policy = config->policy;
  if (flags.encode_batch > 0) {
    policy.encode_batch_tokens = flags.encode_batch;
    policy.adaptive_encode_batch = false;
  }
  if (flags.token_budget > 0) policy.token_budget = flags.token_budget;
  if (flags.media_lanes >= 0) config->media_lanes = static_cast<int32_t>(flags.media_lanes);
  if (flags.embedding_bytes > 0) config->embedding_bytes = flags.embedding_bytes;
  config->kv_tokens = flags.kv_tokens;
  config->slo_s = flags.slo_s;
  if (flags.order_stretch >= 0) {
    policy.order_stretch = flags.order_stretch;
    policy.order = flags.order_stretch > 0 ? Order::kShortestFirst : Order::kArrival;
  }
  if (!flags.feasible_first) return absl::OkStatus();
  if (flags.slo_s <= 0) return absl::InvalidArgumentError("--feasible-first needs --slo");
  policy.order = Order::kFeasibleFirst;
  policy.slo_ns = static_cast<TimeNs>(
      1e9 * std::max(1e-9, flags.slo_s - config->calibration.front_end_ms * 1e-3));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Traffic> MakeTraffic(const WorkloadFlags& flags) {
  Traffic traffic;
  if (!flags.file.empty()) {
    auto requests = ReadRequests(flags.file);
    if (!requests.ok()) return requests.status();
    traffic.recorded = *std::move(requests);
    return traffic;
  }
  auto spec = MakeSpec(flags);
  if (!spec.ok()) return spec.status();
  traffic.spec = *spec;
  return traffic;
}

std::vector<sim::SimRequest> Requests(const Traffic& traffic) {
  if (traffic.recorded.has_value()) return *traffic.recorded;
  return sim::DrainSource(*sim::MakeSource(traffic.spec));
}

absl::StatusOr<sim::SimConfig> MakeSystem(const SystemFlags& flags, const std::string& scheme,
                                          const std::string& layout, const Traffic& traffic) {
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
  if (absl::Status s = ApplyPolicyFlags(flags, &config); !s.ok()) return s;
  if (!flags.config_file.empty()) {
    if (absl::Status s = ReadConfig(flags, &config); !s.ok()) return s;
  }
  if (config.scheme == "adaptive" && config.layout.layers.empty()) {
    config.layout.layers = traffic.recorded.has_value()
                               ? sim::BalancedLayers(config, *traffic.recorded)
                               : sim::BalancedLayers(config, traffic.spec);
  }
  return config;
}

SimCase ParseCase(const std::string& text, const std::string& default_layout) {
  const std::vector<std::string> parts = absl::StrSplit(text, absl::MaxSplits('@', 1));
  return {parts[0], parts.size() > 1 ? parts[1] : default_layout};
}

absl::StatusOr<std::vector<uint64_t>> ParseSeeds(const std::vector<std::string>& texts) {
  std::vector<uint64_t> seeds;
  for (const std::string& text : texts) {
    uint64_t seed = 0;
    if (!absl::SimpleAtoi(text, &seed) || seed > INT64_MAX / 4) {
      return absl::InvalidArgumentError(
          absl::StrCat("--seeds: \"", text, "\" is no number from 0 to ", INT64_MAX / 4));
    }
    seeds.push_back(seed);
  }
  return seeds;
}

absl::Status NothingFits(int64_t requests) {
  return absl::ResourceExhaustedError(
      absl::StrCat("none of the ", requests,
                   " requests fits the budgets (--kv-tokens, --embedding-bytes, --token-budget)"));
}

std::string TtftCell(double seconds, const sim::Summary& summary) {
  return summary.failed == summary.requests ? "-" : FormatFixed(seconds, 3);
}

std::vector<std::string> BoundHeadings() {
  return {"bounds: alone s", "first come s", "shortest s"};
}

std::vector<std::string> BoundCells(const sim::Bounds& bounds) {
  return {FormatFixed(bounds.critical_path_s, 3), FormatFixed(bounds.fcfs_s, 3),
          FormatFixed(bounds.shortest_s, 3)};
}

}  // namespace rserve::tool
