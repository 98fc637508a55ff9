// What a WebP file's container says; shared by the header and the decoder.

#ifndef RSERVE_SRC_MEDIA_WEBP_INFO_H_
#define RSERVE_SRC_MEDIA_WEBP_INFO_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace rserve::media {

struct WebpInfo {
  int64_t width = 0;  // of the canvas, as stored
  int64_t height = 0;
  bool alpha = false;  // announced; what a stream holds without it is not used
  bool animated = false;
  int32_t orientation = 1;
  // Of an animation: its first frame's place on the canvas, and its chunks.
  int64_t frame_x = 0, frame_y = 0, frame_width = 0, frame_height = 0;
  absl::Span<const uint8_t> frame;
};

// `bytes` look like a WebP file (LooksLikeWebp). Reads chunk heads only.
absl::StatusOr<WebpInfo> ReadWebpInfo(absl::Span<const uint8_t> bytes);

}  // namespace rserve::media

#endif  // RSERVE_SRC_MEDIA_WEBP_INFO_H_
