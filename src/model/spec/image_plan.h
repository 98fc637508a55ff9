// From an image's size alone to everything a request needs to know of it before a pixel is decoded.

#ifndef RSERVE_SRC_MODEL_SPEC_IMAGE_PLAN_H_
#define RSERVE_SRC_MODEL_SPEC_IMAGE_PLAN_H_

#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"
#include "src/model/spec/model_config.h"

namespace rserve::model {

// What preprocessor_config.json says.
struct ImageProcessorConfig {
  int64_t min_pixels = 56 * 56;
  int64_t max_pixels = int64_t{28} * 28 * 1280;
  float image_mean[3] = {0.48145466f, 0.4578275f, 0.40821073f};
  float image_std[3] = {0.26862954f, 0.26130258f, 0.27577711f};
  double rescale_factor = 1.0 / 255.0;
  bool do_resize = true;
  bool do_rescale = true;
  bool do_normalize = true;
  int32_t patch_size = 14;
  int32_t temporal_patch_size = 2;
  int32_t merge_size = 2;
};

// Parses preprocessor_config.json (both `min_pixels`/`max_pixels` and `size.shortest_edge` /
// `size.longest_edge` name the pixel limits). Errors name the field and its value.
absl::StatusOr<ImageProcessorConfig> ParseImageProcessorConfig(std::string_view json_text);

// A patch grid: temporal x height x width, in patches.
struct Grid {
  int32_t t = 1;
  int32_t h = 0;
  int32_t w = 0;
  int64_t patches() const { return int64_t{t} * h * w; }
  friend bool operator==(const Grid&, const Grid&) = default;
};

struct ImagePlan {
  int32_t resized_height = 0;  // pixels, a multiple of factor
  int32_t resized_width = 0;
  Grid grid;
  int64_t tokens = 0;  // embedding rows: grid.patches() / merge_size^2
};

// The resize rule of the Qwen2-VL reference ("smart_resize"): both sides a multiple of `factor`,
// the area within [min_pixels, max_pixels], the aspect ratio kept as well as that allows. Sides of
// at least 1 pixel; an aspect ratio above 200 gives INVALID_ARGUMENT. Rounds half to even as the
// reference does. Where the reference itself would return a side of 0 the side is `factor`.
struct ResizedSize {
  int32_t height = 0;
  int32_t width = 0;
};
absl::StatusOr<ResizedSize> SmartResize(int64_t height, int64_t width, int32_t factor,
                                        int64_t min_pixels, int64_t max_pixels);

// Plans one still image of the given (oriented) size.
absl::StatusOr<ImagePlan> PlanImage(int64_t height, int64_t width,
                                    const ImageProcessorConfig& config);

}  // namespace rserve::model

#endif  // RSERVE_SRC_MODEL_SPEC_IMAGE_PLAN_H_
