#include "src/media/oriented_writer.h"

#include <cstddef>
#include <cstring>

#include "src/media/exif.h"

namespace rserve::media {
namespace {

void CopyPixel(uint8_t* to, const uint8_t* from) {
  to[0] = from[0];
  to[1] = from[1];
  to[2] = from[2];
}

}  // namespace

OrientedWriter::OrientedWriter(RgbImage& image, int32_t raw_width, int32_t raw_height,
                               int32_t orientation)
    : image_(image), raw_width_(raw_width), orientation_(orientation) {
  const bool swaps = OrientationSwapsSides(orientation);
  image_.width = swaps ? raw_height : raw_width;
  image_.height = swaps ? raw_width : raw_height;
  image_.data.resize(static_cast<size_t>(raw_width) * static_cast<size_t>(raw_height) * 3);

  const int64_t width = image_.width;
  const int64_t last_column = width - 1;
  const int64_t last_row = (int64_t{image_.height} - 1) * width;
  switch (orientation) {
    case 2:  // mirrored
      origin_ = last_column, step_x_ = -1, step_y_ = width;
      break;
    case 3:  // half turn
      origin_ = last_row + last_column, step_x_ = -1, step_y_ = -width;
      break;
    case 4:  // upside down
      origin_ = last_row, step_x_ = 1, step_y_ = -width;
      break;
    case 5:  // transposed
      origin_ = 0, step_x_ = width, step_y_ = 1;
      break;
    case 6:  // to be turned clockwise
      origin_ = last_column, step_x_ = width, step_y_ = -1;
      break;
    case 7:  // transposed along the other diagonal
      origin_ = last_row + last_column, step_x_ = -width, step_y_ = -1;
      break;
    case 8:  // to be turned counter-clockwise
      origin_ = last_row, step_x_ = -width, step_y_ = 1;
      break;
    default:
      origin_ = 0, step_x_ = 1, step_y_ = width;
      break;
  }
}

void OrientedWriter::Write(int32_t first_row, int32_t rows, const uint8_t* rgb) {
  uint8_t* pixels = image_.data.data();
  const int64_t row_bytes = int64_t{raw_width_} * 3;
  if (orientation_ == 1) {
    std::memcpy(pixels + first_row * row_bytes, rgb, static_cast<size_t>(rows * row_bytes));
    return;
  }
  const int64_t start = origin_ + first_row * step_y_;
  if (OrientationSwapsSides(orientation_)) {
    for (int64_t x = 0; x < raw_width_; ++x) {
      for (int64_t y = 0; y < rows; ++y) {
        CopyPixel(pixels + (start + x * step_x_ + y * step_y_) * 3, rgb + y * row_bytes + x * 3);
      }
    }
    return;
  }
  for (int64_t y = 0; y < rows; ++y) {
    for (int64_t x = 0; x < raw_width_; ++x) {
      CopyPixel(pixels + (start + x * step_x_ + y * step_y_) * 3, rgb + y * row_bytes + x * 3);
    }
  }
}

}  // namespace rserve::media
