#include <cstdint>

#include "src/media/decoders.h"
#include "src/media/exif.h"
#include "src/media/image.h"

namespace rserve::media {

RawSize StoredSize(const ImageHeader& header) {
  const auto width = static_cast<int32_t>(header.width);
  const auto height = static_cast<int32_t>(header.height);
  if (OrientationSwapsSides(header.orientation)) return {height, width};
  return {width, height};
}

absl::StatusOr<RgbImage> DecodeImage(absl::Span<const uint8_t> bytes, const ImageLimits& limits) {
  absl::StatusOr<ImageHeader> header = ReadImageHeader(bytes, limits);
  if (!header.ok()) return header.status();
  switch (header->format) {
    case ImageFormat::kPng:
      return DecodePng(bytes, *header);
    case ImageFormat::kJpeg:
      return DecodeJpeg(bytes, *header);
    case ImageFormat::kWebp:
      return DecodeWebp(bytes, *header);
    case ImageFormat::kGif:
      return DecodeGif(bytes, *header);
    case ImageFormat::kBmp:
      return DecodeBmp(bytes, *header);
  }
  return absl::InternalError("an image format without a decoder");
}

}  // namespace rserve::media
