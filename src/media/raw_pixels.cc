#include "src/media/raw_pixels.h"

#include <cstddef>
#include <cstring>

#include "src/media/composite.h"

namespace rserve::media {

RgbImage RawToRgb(const uint8_t* data, int32_t width, int32_t height, int64_t row_stride_bytes,
                  RawLayout layout) {
  RgbImage image;
  image.width = width;
  image.height = height;
  const auto columns = static_cast<size_t>(width);
  image.data.resize(columns * static_cast<size_t>(height) * 3);
  for (int32_t y = 0; y < height; ++y) {
    const uint8_t* from = data + y * row_stride_bytes;
    uint8_t* to = image.data.data() + static_cast<size_t>(y) * columns * 3;
    switch (layout) {
      case RawLayout::kRgb8:
        std::memcpy(to, from, columns * 3);
        break;
      case RawLayout::kRgba8:
        CompositeOnWhite(from, columns, to);
        break;
      case RawLayout::kGray8:
        for (size_t x = 0; x < columns; ++x) std::memset(to + x * 3, from[x], 3);
        break;
    }
  }
  return image;
}

}  // namespace rserve::media
