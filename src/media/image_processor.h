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
  int64_t row_stride_bytes = 0;  // at least width * 3
};

// Bicubic resize with antialiasing, bit-equal to Pillow 13's Image.resize(BICUBIC) on 8-bit RGB:
// two passes, 22-bit fixed-point coefficients, rounded to 8 bit between the passes; horizontal
// first unless the height shrinks by more than twice as many pixels as the width. (Pillow up to 12
// goes horizontally first always; in that case some samples differ by rounding.) An empty view, a
// stride below width * 3 or a target side below 1 gives an empty image (0 x 0). Extra memory: the
// image between the passes, and about 4 * (source side + target side) weights a pass. Any thread;
// pure.
RgbImage ResizeBicubic(const RgbView& source, int32_t width, int32_t height);

// Resizes to the plan's size if needed, rescales, normalises and flattens into patch rows:
// `patches` is [plan.grid.patches()][channels * temporal * patch * patch], f32, rows in the merged
// window order of the reference (t, h / merge, w / merge, merge, merge), each row in the order
// (channel, temporal, y, x). Bit-equal to the reference on the same RGB pixels.
// INVALID_ARGUMENT if the plan does not fit the configuration (or, with do_resize off, the image),
// or `patches` has another length. That PlanImage made the plan from this image's size is the
// caller's part: any consistent plan is carried out. Any thread; pure.
absl::Status PreprocessImage(const RgbView& source, const model::ImagePlan& plan,
                             const model::ImageProcessorConfig& config, absl::Span<float> patches);

// The second step alone, for callers that resize (or decode) apart from it or want the rows in
// parts: writes the patch rows [first_patch, first_patch + n), n being patches.size() over the row
// length, of an image that already has the plan's size. INVALID_ARGUMENT as above, and for a size
// that is no whole number of rows or passes the grid.
absl::Status PatchifyRows(const RgbView& resized, const model::ImagePlan& plan,
                          const model::ImageProcessorConfig& config, int64_t first_patch,
                          absl::Span<float> patches);

// One temporal patch of a video: config.temporal_patch_size frames of one size (or fewer: the last
// one is repeated), each resized as PreprocessImage does; `plan` is that of a still image (grid.t
// 1). Rows and errors as there.
absl::Status PreprocessFrames(absl::Span<const RgbView> frames, const model::ImagePlan& plan,
                              const model::ImageProcessorConfig& config, absl::Span<float> patches);

}  // namespace rserve::media

#endif  // RSERVE_SRC_MEDIA_IMAGE_PROCESSOR_H_
