// What arrives: requests as sizes and places, from a generator or from a JSONL file.

#ifndef RSERVE_SRC_SIM_WORKLOAD_H_
#define RSERVE_SRC_SIM_WORKLOAD_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "rserve/cc/request_plan.h"
#include "src/sim/random.h"

namespace rserve::sim {

struct SimItem {
  int64_t token_begin = 0;
  int64_t tokens = 0;
  int32_t units = 1;     // a video has one a temporal patch; tokens are spread evenly over them
  uint64_t content = 0;  // equal for equal pictures; 0: not known
  friend bool operator==(const SimItem&, const SimItem&) = default;
};

struct SimRequest {
  TimeNs arrival_ns = 0;
  int64_t prompt_tokens = 0;
  std::vector<SimItem> items;  // ascending, not overlapping
  friend bool operator==(const SimRequest&, const SimRequest&) = default;
};

enum class WorkloadKind : int32_t {
  kMmmu1k = 0,      // 1 + Poisson(4) pictures of about 1000 tokens, about 3000 tokens of text
  kMmmu2k = 1,      // the same with pictures of about 1800 tokens, more spread
  kHeavyTail = 2,   // as kMmmu1k with a geometric number of pictures
  kTinyItems = 3,   // 20 pictures of 64 tokens, 2000 tokens of text
  kVideo = 4,       // one video of 16 to 64 temporal patches of 180 tokens, 300 tokens of text
  kTextOnly = 5,    // about 3000 tokens, no pictures
  kTextMix = 6,     // half kTextOnly, half kMmmu1k
  kDuplicates = 7,  // as kMmmu1k; three pictures in ten are one of 32 that come again and again
  kFixed = 8,       // all alike: WorkloadSpec::fixed_*
};
absl::StatusOr<WorkloadKind> ParseWorkloadKind(std::string_view name);
std::string_view WorkloadKindName(WorkloadKind kind);
std::vector<std::string> WorkloadKindNames();

enum class ArrivalKind : int32_t {
  kPoisson = 0,
  kBursty = 1,  // groups of `burst` at the same time, exponential gaps, the same mean rate
  kAtOnce = 2,
};

struct WorkloadSpec {
  WorkloadKind kind = WorkloadKind::kMmmu1k;
  ArrivalKind arrivals = ArrivalKind::kPoisson;
  double rate = 1;  // requests a second
  int64_t burst = 8;
  int64_t requests = 300;
  uint64_t seed = 1;
  // kFixed: pictures of so many tokens, text spread evenly around them.
  int64_t fixed_items = 20;
  int64_t fixed_item_tokens = 1024;
  int64_t fixed_text_tokens = 2000;
};

// Gives requests one after another, ascending by arrival, so that a long run holds only the open
// ones.
class RequestSource {
 public:
  virtual ~RequestSource() = default;
  virtual std::optional<SimRequest> Next() = 0;
};

std::unique_ptr<RequestSource> MakeSource(const WorkloadSpec& spec);
// A copy of a list, in order of arrival.
std::unique_ptr<RequestSource> MakeSource(std::vector<SimRequest> requests);
std::vector<SimRequest> DrainSource(RequestSource& source);

// The plan the orchestrator gets. `id` is at least 1.
RequestPlan MakePlan(const SimRequest& request, RequestId id, int64_t embedding_bytes_per_token);
// Tokens of the units, in plan order.
std::vector<int64_t> UnitTokens(const SimRequest& request);

// {"arrival_ns": 0, "prompt_tokens": 8000, "items": [{"at": 12, "tokens": 1000}]} a line.
std::string ToJsonl(const std::vector<SimRequest>& requests);
// INVALID_ARGUMENT names the line and what is wrong in it.
absl::StatusOr<std::vector<SimRequest>> FromJsonl(std::string_view text);

}  // namespace rserve::sim

#endif  // RSERVE_SRC_SIM_WORKLOAD_H_
