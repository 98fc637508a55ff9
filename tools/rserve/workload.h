// Synthetic requests and arrival times, the same for the same seed on every machine.

#ifndef RSERVE_TOOLS_RSERVE_WORKLOAD_H_
#define RSERVE_TOOLS_RSERVE_WORKLOAD_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "rserve/cc/model_engine.h"
#include "src/model/spec/image_plan.h"
#include "src/model/spec/model_config.h"

namespace rserve::tool {

// SplitMix64: small, fast, good enough for workloads and random weights.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t Next();
  double Uniform();  // [0, 1)

 private:
  uint64_t state_;
};

struct Workload {
  int64_t requests = 16;
  int64_t images = 8;  // a request
  int64_t image_width = 448;
  int64_t image_height = 448;
  int64_t text_tokens = 128;          // before and between the pictures, spread evenly
  int64_t trailing_text_tokens = 16;  // after the last picture
  uint64_t seed = 1;
};

enum class Arrivals : int32_t { kAtOnce = 0, kPoisson = 1, kBursty = 2 };

// Ascending times from 0. `rate` is in requests a second. kPoisson: exponential gaps. kBursty:
// groups of `burst` requests at the same time, exponential gaps between groups, the same mean rate.
std::vector<TimeNs> ArrivalTimes(Arrivals arrivals, int64_t requests, double rate, int64_t burst,
                                 uint64_t seed);

// The prompt of every request of a workload: all have the same shape.
struct PromptShape {
  int64_t prompt_tokens = 0;
  std::vector<int64_t> item_begin;   // first token of each picture
  std::vector<int64_t> item_tokens;  // of each picture
};
absl::StatusOr<PromptShape> ShapeOf(const Workload& workload,
                                    const model::ImageProcessorConfig& processor);

// Requests with random pixels and random text tokens, all different.
struct SyntheticRequests {
  std::vector<ModelRequest> requests;
  std::vector<std::shared_ptr<const std::vector<uint8_t>>> pixels;  // borrowed by the requests
};
SyntheticRequests MakeRequests(const Workload& workload, const model::ModelConfig& config);

// Tokens of a KV cache for the set: room for every request, as far as 2 GiB (f32) go, but at least
// for one.
int64_t BenchKvTokens(const Workload& workload, const PromptShape& shape,
                      const model::ModelConfig& config);

// The same set as plans for an engine without a model. Ids are given at submit.
std::vector<RequestPlan> MakePlans(const Workload& workload, const PromptShape& shape,
                                   int64_t embedding_row_bytes);

}  // namespace rserve::tool

#endif  // RSERVE_TOOLS_RSERVE_WORKLOAD_H_
