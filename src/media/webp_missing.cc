// Stands in for webp_decode.cc in a build without libwebp.

#include "absl/status/status.h"
#include "src/media/decoders.h"

namespace rserve::media {

bool ImageFormatSupported(ImageFormat format) { return format != ImageFormat::kWebp; }

absl::StatusOr<RgbImage> DecodeWebp(absl::Span<const uint8_t>, const ImageHeader&) {
  return absl::UnimplementedError("this build of rserve cannot decode WebP files");
}

}  // namespace rserve::media
