// Checks the parts of a request that carry pictures, before anything is planned: sizes, strides,
// limits. Reads headers of files, never pixels.

#ifndef RSERVE_SRC_RUNTIME_MODEL_PART_CHECK_H_
#define RSERVE_SRC_RUNTIME_MODEL_PART_CHECK_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "rserve/cc/model_engine.h"
#include "src/model/spec/image_plan.h"
#include "src/model/spec/model_config.h"
#include "src/model/spec/prompt_plan.h"

namespace rserve::runtime {

// Each gives the prompt part to plan. INVALID_ARGUMENT names the fault with its number,
// RESOURCE_EXHAUSTED the limit's option (max_image_pixels, of one frame for a video).
absl::StatusOr<model::ImagePart> CheckPart(const EncodedImage& image, int64_t max_image_pixels);
absl::StatusOr<model::ImagePart> CheckPart(const PixelImage& image, int64_t max_image_pixels);
absl::StatusOr<model::VideoPart> CheckPart(const VideoFrames& video,
                                           const model::ImageProcessorConfig& processor,
                                           const model::ModelConfig& model,
                                           int64_t max_image_pixels);
absl::StatusOr<model::EmbeddingPart> CheckPart(const EmbeddingInput& input,
                                               const model::ModelConfig& model);

}  // namespace rserve::runtime

#endif  // RSERVE_SRC_RUNTIME_MODEL_PART_CHECK_H_
