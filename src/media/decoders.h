// The formats behind ReadImageHeader and DecodeImage; for use inside src/media only.
//
// PNG and JPEG wrap a C library that reports errors by longjmp. The rule that keeps this sound: a
// jump starts in a library callback and ends in a member function of the wrapper whose frame, like
// every frame in between, holds only trivially destructible objects; all memory that outlives a
// call is owned by the caller's frame or the wrapper's destructor. Messages are kept in a fixed
// buffer: nothing is printed, nothing exits.

#ifndef RSERVE_SRC_MEDIA_DECODERS_H_
#define RSERVE_SRC_MEDIA_DECODERS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "src/media/image.h"

namespace rserve::media {

// What a header says, stored size (the orientation is not applied yet), before any limit is
// checked. The bytes begin with the format's signature (LooksLike...).
bool LooksLikeGif(absl::Span<const uint8_t> bytes);
bool LooksLikeBmp(absl::Span<const uint8_t> bytes);
bool LooksLikeWebp(absl::Span<const uint8_t> bytes);
absl::Status ReadGifHeader(absl::Span<const uint8_t> bytes, ImageHeader& header);
absl::Status ReadBmpHeader(absl::Span<const uint8_t> bytes, ImageHeader& header);
absl::Status ReadWebpHeader(absl::Span<const uint8_t> bytes, ImageHeader& header);

// `header` is what ReadImageHeader said of the same bytes; a file whose decoder sees another size
// is refused as damaged.
absl::StatusOr<RgbImage> DecodePng(absl::Span<const uint8_t> bytes, const ImageHeader& header);
absl::StatusOr<RgbImage> DecodeJpeg(absl::Span<const uint8_t> bytes, const ImageHeader& header);
absl::StatusOr<RgbImage> DecodeGif(absl::Span<const uint8_t> bytes, const ImageHeader& header);
absl::StatusOr<RgbImage> DecodeBmp(absl::Span<const uint8_t> bytes, const ImageHeader& header);
// UNIMPLEMENTED in a build without libwebp.
absl::StatusOr<RgbImage> DecodeWebp(absl::Span<const uint8_t> bytes, const ImageHeader& header);

// The size the file stores, before the orientation is undone.
struct RawSize {
  int32_t width = 0;
  int32_t height = 0;
};
RawSize StoredSize(const ImageHeader& header);

}  // namespace rserve::media

#endif  // RSERVE_SRC_MEDIA_DECODERS_H_
