#include "rserve/cc/policy.h"

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace rserve {
namespace {

constexpr struct {
  Scheme scheme;
  std::string_view name;
} kSchemes[] = {
    {Scheme::kRserve, "rserve"},     {Scheme::kRserveIntra, "rserve_intra"},
    {Scheme::kEpd, "epd"},           {Scheme::kColocated, "colocated"},
    {Scheme::kAdaptive, "adaptive"},
};

}  // namespace

std::string_view SchemeName(Scheme scheme) {
  for (const auto& known : kSchemes) {
    if (known.scheme == scheme) return known.name;
  }
  return "unknown";
}

absl::StatusOr<Scheme> ParseScheme(std::string_view name) {
  std::string names;
  for (const auto& known : kSchemes) {
    if (known.name == name) return known.scheme;
    absl::StrAppend(&names, names.empty() ? "" : ", ", std::string(known.name));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("scheme is \"", std::string(name), "\"; known are ", names));
}

Policy SchemePolicy(Scheme scheme) {
  Policy policy;
  switch (scheme) {
    case Scheme::kRserve:
      break;
    case Scheme::kRserveIntra:
      policy.sharing = Sharing::kOneRequest;
      break;
    case Scheme::kEpd:
      policy.gate = Gate::kWholeRequest;
      break;
    case Scheme::kColocated:
      policy.gate = Gate::kWholeRequest;
      policy.trigger = EncodeTrigger::kOnFirstChunk;
      break;
    case Scheme::kAdaptive:
      policy.order = Order::kShortestFirst;
      policy.order_guard_ns = 60'000'000'000;
      policy.square_root_budget = true;
      policy.token_budget = 4096;
      policy.adaptive_encode_batch = true;
      policy.encode_across_requests = true;
      break;
  }
  return policy;
}

std::vector<WorkerSpec> SchemePlacement(Scheme scheme, int32_t stages, int32_t encoders,
                                        int32_t depth) {
  std::vector<WorkerSpec> workers;
  for (int32_t stage = 0; stage < stages; ++stage) {
    WorkerSpec worker;
    worker.stage = stage;
    worker.depth = depth;
    const bool shared =
        scheme == Scheme::kColocated || (scheme == Scheme::kAdaptive && encoders == 0);
    worker.encoder = shared && stage == 0;
    workers.push_back(worker);
  }
  if (scheme == Scheme::kColocated) return workers;
  for (int32_t e = 0; e < encoders; ++e) {
    WorkerSpec worker;
    worker.encoder = true;
    worker.depth = depth;
    workers.push_back(worker);
  }
  return workers;
}

int32_t AdaptiveMicroBatches(const std::vector<WorkerSpec>& workers) {
  int32_t sum = 0;
  for (const WorkerSpec& worker : workers) sum += worker.stage >= 0 ? worker.depth : 0;
  return 2 * sum;
}

std::string TopologyName(const std::vector<WorkerSpec>& workers) {
  int32_t stages = 0, encoders = 0;
  for (const WorkerSpec& worker : workers) {
    if (worker.stage >= 0) ++stages;
    if (worker.encoder && worker.stage < 0) ++encoders;
  }
  // One stage of one rank is written TP1, as in the paper.
  std::string name = stages == 1 ? "TP1" : absl::StrCat("PP", stages);
  if (encoders > 0) absl::StrAppend(&name, "+E", encoders);
  return name;
}

}  // namespace rserve
