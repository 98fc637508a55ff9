// Videos from files: what the container says of the frames, and the frames.

#ifndef RSERVE_SRC_MEDIA_VIDEO_H_
#define RSERVE_SRC_MEDIA_VIDEO_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "src/media/image.h"

namespace rserve::media {

struct VideoInfo {
  int32_t width = 0;  // oriented, as ImageHeader
  int32_t height = 0;
  // When each frame is shown, in seconds, the first at 0, and when the last one ends.
  std::vector<double> begin_s;
  double duration_s = 0;
  // Of a container read by FFmpeg: its times of the frames, ascending, and of those among them at
  // which decoding can begin; the EXIF value of the turn that decoding will undo.
  std::vector<int64_t> times;
  std::vector<int64_t> entry_times;
  int32_t orientation = 1;

  int64_t frames() const { return static_cast<int64_t>(begin_s.size()); }
};

// Whether this build reads other files than animated GIFs: where FFmpeg's libraries were found.
bool VideoFilesSupported();

// Reads the file's structure; decodes nothing where the container tells the frames' size.
// INVALID_ARGUMENT for what is no video or damaged, UNIMPLEMENTED, with its name, for a format or
// codec that this build cannot read, RESOURCE_EXHAUSTED over max_image_pixels (of a frame) or the
// reader's own bounds. Any thread; pure.
absl::StatusOr<VideoInfo> ReadVideo(absl::Span<const uint8_t> bytes, const ImageLimits& limits);

// Shows frames, best in ascending order. One thread at a time.
class FramePlayer {
 public:
  virtual ~FramePlayer() = default;
  // INVALID_ARGUMENT when the file is damaged at the frame or before it, or has no such frame.
  virtual absl::StatusOr<RgbImage> Show(int64_t number) = 0;
};

// `info` is ReadVideo's of the same bytes, which outlive the player.
std::unique_ptr<FramePlayer> MakeFramePlayer(absl::Span<const uint8_t> bytes,
                                             const VideoInfo& info);

}  // namespace rserve::media

#endif  // RSERVE_SRC_MEDIA_VIDEO_H_
