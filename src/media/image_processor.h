// RGB pixels to the encoder's input rows, equal to the Qwen2-VL reference processor (Pillow path).

#ifndef RSERVE_SRC_MEDIA_IMAGE_PROCESSOR_H_
#define RSERVE_SRC_MEDIA_IMAGE_PROCESSOR_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "src/media/image.h"
#include "src/model/spec/image_plan.h"

namespace rserve::media {

// A view of RGB8 pixels with an explicit layout.
struct RgbView {
  const uint8_t* data = nullptr;
  int32_t width = 0;
  int32_t height = 0;
  int64_t row_stride_bytes = 0;       // at least width * 3
};

// Bicubic resize with antialiasing, bit-equal to Pillow's Image.resize(BICUBIC) on 8-bit RGB (two
// passes, horizontal first, 22-bit fixed-point coefficients, rounded to 8 bit between them).
RgbImage ResizeBicubic(const RgbView& source, int32_t width, int32_t height);

// Resizes to the plan's size if needed, rescales, normalises and flattens into patch rows:
// `patches` is [plan.grid.patches()][channels * temporal * patch * patch], f32, rows in the merged
// window order of the reference (t, h / merge, w / merge, merge, merge). INVALID_ARGUMENT if the
// plan does not belong to an image of this size or `patches` has another length.
absl::Status PreprocessImage(const RgbView& source, const model::ImagePlan& plan,
                             const model::ImageProcessorConfig& config,
                             absl::Span<float> patches);

}  // namespace rserve::media

#endif  // RSERVE_SRC_MEDIA_IMAGE_PROCESSOR_H_
