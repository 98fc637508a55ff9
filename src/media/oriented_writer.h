// Where a decoder's rows go: into the finished image, turned as the EXIF orientation asks.

#ifndef RSERVE_SRC_MEDIA_ORIENTED_WRITER_H_
#define RSERVE_SRC_MEDIA_ORIENTED_WRITER_H_

#include <cstdint>

#include "src/media/image.h"

namespace rserve::media {

// Decoders hand over this many rows at a time, so that a quarter turn writes short runs and not
// single pixels a whole image row apart.
inline constexpr int32_t kBandRows = 16;

// Writes rows of a stored image of `raw_width` x `raw_height` into an image of the oriented size,
// which it allocates (the only memory it needs: no second copy of the image). The image must
// outlive it.
class OrientedWriter {
 public:
  OrientedWriter(RgbImage& image, int32_t raw_width, int32_t raw_height, int32_t orientation);

  // Rows [first_row, first_row + rows) of the stored image, RGB8 without padding.
  void Write(int32_t first_row, int32_t rows, const uint8_t* rgb);

 private:
  RgbImage& image_;
  int32_t raw_width_;
  int32_t orientation_;
  // Stored pixel (x, y) goes to pixel number origin + x * step_x + y * step_y.
  int64_t origin_ = 0;
  int64_t step_x_ = 0;
  int64_t step_y_ = 0;
};

}  // namespace rserve::media

#endif  // RSERVE_SRC_MEDIA_ORIENTED_WRITER_H_
