// Decoded pixels in the layouts that hosts hold them in.

#ifndef RSERVE_SRC_MEDIA_RAW_PIXELS_H_
#define RSERVE_SRC_MEDIA_RAW_PIXELS_H_

#include <cstdint>

#include "src/media/image.h"

namespace rserve::media {

// One byte a sample, interleaved. The layout is always said, never guessed from a shape.
enum class RawLayout : int32_t { kRgb8 = 0, kRgba8 = 1, kGray8 = 2 };

// 0 for a number that is no layout.
inline int32_t RawPixelBytes(RawLayout layout) {
  switch (layout) {
    case RawLayout::kRgb8:
      return 3;
    case RawLayout::kRgba8:
      return 4;
    case RawLayout::kGray8:
      return 1;
  }
  return 0;
}

// To RGB: alpha over white as for files, gray to three equal samples. The caller has checked that
// `data` holds height rows `row_stride_bytes` apart, each of width pixels. Any thread; pure.
RgbImage RawToRgb(const uint8_t* data, int32_t width, int32_t height, int64_t row_stride_bytes,
                  RawLayout layout);

}  // namespace rserve::media

#endif  // RSERVE_SRC_MEDIA_RAW_PIXELS_H_
