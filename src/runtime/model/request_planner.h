// From a request's parts to its plan: token ids, pictures, positions and sizes. Reads headers of
// pictures, never their pixels.

#ifndef RSERVE_SRC_RUNTIME_MODEL_REQUEST_PLANNER_H_
#define RSERVE_SRC_RUNTIME_MODEL_REQUEST_PLANNER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rserve/cc/model_engine.h"
#include "rserve/cc/request_plan.h"
#include "src/model/spec/prompt_plan.h"
#include "src/runtime/model/video_file.h"

namespace rserve::runtime {

struct LoadedModel;

// The options that refuse a request, by their names in ModelEngineOptions.
struct PlanLimits {
  int64_t max_prompt_tokens = 0;
  int64_t max_image_pixels = 0;
  int64_t input_bytes = 0;
  int64_t kv_tokens = 0;  // rounded up to blocks
  int64_t encoder_batch_tokens = 0;
};

struct PlannedImage {
  size_t part = 0;                            // index into the request's parts
  int32_t width = 0, height = 0;              // source, oriented; 0 of supplied rows
  std::shared_ptr<const SampledVideo> video;  // of a VideoFile; otherwise null
};

struct PlannedRequest {
  model::PromptPlan prompt;
  std::vector<PlannedImage> images;  // as prompt.items
  RequestPlan core;                  // with id 0
};

// Immutable and thread-safe. `model` outlives it.
class RequestPlanner {
 public:
  RequestPlanner(const LoadedModel& model, const PlanLimits& limits)
      : model_(model), limits_(limits) {}

  // INVALID_ARGUMENT names the part and the fault. RESOURCE_EXHAUSTED for what is too large to be
  // planned: input bytes, pixels of a source picture, tokens of the prompt.
  absl::StatusOr<PlannedRequest> Plan(const ModelRequest& request) const;

  // RESOURCE_EXHAUSTED when the prompt can never lie in the KV cache or a picture in one encode
  // batch, in the words of the engine's options. The core's own check is wider; this one speaks
  // first.
  absl::Status CheckFits(const PlannedRequest& planned) const;

  static std::vector<ItemDetail> Items(const PlannedRequest& planned);

 private:
  // Of a part with a picture, video or rows; sets `image->video`.
  absl::StatusOr<model::PromptPart> CheckItem(const RequestPart& part, PlannedImage* image) const;
  absl::Status AddItem(const RequestPart& part, size_t index,
                       std::vector<model::PromptPart>* prompt_parts,
                       std::vector<PlannedImage>* images, int64_t* known_tokens) const;
  absl::Status AddPart(const RequestPart& part, size_t index,
                       std::vector<model::PromptPart>* prompt_parts,
                       std::vector<PlannedImage>* images, int64_t* known_tokens) const;

  const LoadedModel& model_;
  const PlanLimits limits_;
};

}  // namespace rserve::runtime

#endif  // RSERVE_SRC_RUNTIME_MODEL_REQUEST_PLANNER_H_
