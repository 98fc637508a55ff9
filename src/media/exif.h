// The one EXIF field that changes pixels: the orientation.

#ifndef RSERVE_SRC_MEDIA_EXIF_H_
#define RSERVE_SRC_MEDIA_EXIF_H_

#include <cstdint>

#include "absl/types/span.h"

namespace rserve::media {

// Finds tag 0x0112 in the first directory of an EXIF block. `tiff` starts at the TIFF header, after
// the "Exif\0\0" of a JPEG segment; both byte orders. Metadata never makes an image unreadable:
// whatever is malformed, absent or outside 1..8 counts as 1 (upright). Reads at most one directory.
int32_t ExifOrientation(absl::Span<const uint8_t> tiff);

// Orientations 5..8 turn the image by a quarter: width and height change places.
inline bool OrientationSwapsSides(int32_t orientation) { return orientation >= 5; }

}  // namespace rserve::media

#endif  // RSERVE_SRC_MEDIA_EXIF_H_
