// Still images: what the header says, and the pixels.

#ifndef RSERVE_SRC_MEDIA_IMAGE_H_
#define RSERVE_SRC_MEDIA_IMAGE_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace rserve::media {

enum class ImageFormat : int32_t { kPng = 0, kJpeg = 1, kWebp = 2, kGif = 3, kBmp = 4 };
std::string_view ImageFormatName(ImageFormat format);

// Whether this build can decode the format. All but WebP always; WebP where libwebp was found.
bool ImageFormatSupported(ImageFormat format);

// What can be told from the first bytes of a file, without decoding.
struct ImageHeader {
  ImageFormat format = ImageFormat::kPng;
  int64_t width = 0;  // oriented: what a viewer shows
  int64_t height = 0;
  int32_t orientation = 1;  // EXIF value 1..8 that decoding will undo
};

struct ImageLimits {
  int64_t max_pixels = int64_t{1} << 27;  // width * height of the source, before any allocation
};

// Reads the header of a file, whose format its first bytes tell. Touches no pixel data and
// allocates nothing that grows with the image. INVALID_ARGUMENT for bytes that are no such file, a
// damaged header, or a kind of file that DecodeImage cannot read; UNIMPLEMENTED, naming the format,
// for one that this build was made without; RESOURCE_EXHAUSTED for width * height over the limit,
// with size, limit and the option's name (`max_image_pixels`). Any thread; pure.
absl::StatusOr<ImageHeader> ReadImageHeader(absl::Span<const uint8_t> bytes,
                                            const ImageLimits& limits);

// 8-bit RGB, row-major, no padding: data[(y * width + x) * 3 + channel].
struct RgbImage {
  int32_t width = 0;
  int32_t height = 0;
  std::vector<uint8_t> data;
};

// Decodes to RGB as Pillow's convert("RGB") would show it: EXIF orientation applied, palette, gray,
// 16-bit (the high byte) and alpha handled (alpha composited on white), CMYK/YCCK JPEG converted.
// Of an animation this is the first frame on its canvas. PNG, GIF and BMP are bit-equal to Pillow;
// JPEG and WebP are too where both use the same arithmetic (libjpeg-turbo, libwebp). A file that
// ends early or is corrupt gives INVALID_ARGUMENT with the codec's message; bytes after the end of
// the image are ignored. The decoded size always equals ReadImageHeader's. Any thread; pure. Peak
// memory in bytes a pixel: 3 for the result, and 4 more for an interlaced PNG, 1 for a GIF, up to 8
// for a WebP, or 2 for each sample of a progressive JPEG.
absl::StatusOr<RgbImage> DecodeImage(absl::Span<const uint8_t> bytes, const ImageLimits& limits);

}  // namespace rserve::media

#endif  // RSERVE_SRC_MEDIA_IMAGE_H_
