// Video files through FFmpeg's libraries, where they were found (video.h).
//
// Files are foreign bytes: they are read from memory only, by the demuxers and decoders of a fixed
// list, with a bound on the bytes that reading the structure may take (hostile indexes make a
// reader go round in circles), on frames, and on the pixels of a frame.

#ifndef RSERVE_SRC_MEDIA_FFMPEG_VIDEO_H_
#define RSERVE_SRC_MEDIA_FFMPEG_VIDEO_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "src/media/video.h"

namespace rserve::media {

// Nine hours at 30 frames a second.
inline constexpr int64_t kMaxVideoFrames = int64_t{1} << 20;

absl::StatusOr<VideoInfo> ReadFfmpegVideo(absl::Span<const uint8_t> bytes,
                                          const ImageLimits& limits);

// Holds a decoder with its reference frames: up to about 20 frames of 1.5 to 3 bytes a pixel.
std::unique_ptr<FramePlayer> MakeFfmpegPlayer(absl::Span<const uint8_t> bytes,
                                              const VideoInfo& info);

}  // namespace rserve::media

#endif  // RSERVE_SRC_MEDIA_FFMPEG_VIDEO_H_
