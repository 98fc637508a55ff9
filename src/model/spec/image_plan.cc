#include "src/model/spec/image_plan.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"

namespace rserve::model {
namespace {

// Up to here the products and quotients below are exact in double, as they are in Python.
constexpr int64_t kMaxSide = int64_t{1} << 26;
constexpr int64_t kMaxPixelLimit = int64_t{1} << 40;
constexpr int64_t kMaxAspectRatio = 200;

// round(value / factor) * factor, halves to the even multiple.
int64_t RoundToFactor(int64_t value, int64_t factor) {
  const int64_t quotient = value / factor;
  const int64_t twice_rest = 2 * (value % factor);
  const bool up = twice_rest > factor || (twice_rest == factor && quotient % 2 == 1);
  return (quotient + (up ? 1 : 0)) * factor;
}

}  // namespace

absl::StatusOr<ResizedSize> SmartResize(int64_t height, int64_t width, int32_t factor,
                                        int64_t min_pixels, int64_t max_pixels) {
  if (height < 1 || width < 1 || height > kMaxSide || width > kMaxSide) {
    return absl::InvalidArgumentError(
        absl::StrCat("image of ", width, "x", height, " pixels: a side must be 1 to ", kMaxSide));
  }
  if (factor < 1 || factor > 65536 || min_pixels < 0 || max_pixels < 1 || min_pixels > max_pixels ||
      max_pixels > kMaxPixelLimit) {
    return absl::InvalidArgumentError(absl::StrCat("factor ", factor, ", min_pixels ", min_pixels,
                                                   ", max_pixels ", max_pixels,
                                                   ": want factor 1 to 65536 and 0 <= min_pixels"
                                                   " <= max_pixels <= ",
                                                   kMaxPixelLimit));
  }
  if (std::max(height, width) > kMaxAspectRatio * std::min(height, width)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "image of ", width, "x", height, " pixels: the aspect ratio is above ", kMaxAspectRatio));
  }
  int64_t out_height = RoundToFactor(height, factor);
  int64_t out_width = RoundToFactor(width, factor);
  // The order of the floating-point operations is the reference's; it decides the rounding.
  const double area = static_cast<double>(height * width);
  if (out_height * out_width > max_pixels) {
    const double beta = std::sqrt(area / static_cast<double>(max_pixels));
    const auto shrink = [beta, factor](int64_t side) {
      return static_cast<int64_t>(std::floor(static_cast<double>(side) / beta / factor)) * factor;
    };
    out_height = shrink(height);
    out_width = shrink(width);
  } else if (out_height * out_width < min_pixels) {
    const double beta = std::sqrt(static_cast<double>(min_pixels) / area);
    const auto grow = [beta, factor](int64_t side) {
      return static_cast<int64_t>(std::ceil(static_cast<double>(side) * beta / factor)) * factor;
    };
    out_height = grow(height);
    out_width = grow(width);
  }
  ResizedSize size;
  size.height = static_cast<int32_t>(std::max<int64_t>(factor, out_height));
  size.width = static_cast<int32_t>(std::max<int64_t>(factor, out_width));
  return size;
}

absl::StatusOr<ImagePlan> PlanImage(int64_t height, int64_t width,
                                    const ImageProcessorConfig& config) {
  const int32_t factor = config.patch_size * config.merge_size;
  absl::StatusOr<ResizedSize> size =
      SmartResize(height, width, factor, config.min_pixels, config.max_pixels);
  if (!size.ok()) return size.status();
  if (!config.do_resize) {
    if (height % factor != 0 || width % factor != 0) {
      return absl::InvalidArgumentError(absl::StrCat("image of ", width, "x", height,
                                                     " pixels: do_resize is off and a side is"
                                                     " not a multiple of ",
                                                     factor));
    }
    size->height = static_cast<int32_t>(height);
    size->width = static_cast<int32_t>(width);
  }
  ImagePlan plan;
  plan.resized_height = size->height;
  plan.resized_width = size->width;
  plan.grid = {1, size->height / config.patch_size, size->width / config.patch_size};
  plan.tokens = plan.grid.patches() / (int64_t{config.merge_size} * config.merge_size);
  return plan;
}

}  // namespace rserve::model
