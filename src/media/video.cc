#include "src/media/video.h"

#include "src/media/decoders.h"
#include "src/media/ffmpeg_video.h"
#include "src/media/gif_video.h"

namespace rserve::media {

absl::StatusOr<VideoInfo> ReadVideo(absl::Span<const uint8_t> bytes, const ImageLimits& limits) {
  return LooksLikeGif(bytes) ? ReadGifVideo(bytes, limits) : ReadFfmpegVideo(bytes, limits);
}

std::unique_ptr<FramePlayer> MakeFramePlayer(absl::Span<const uint8_t> bytes,
                                             const VideoInfo& info) {
  if (LooksLikeGif(bytes)) return std::make_unique<GifPlayer>(bytes, info);
  return MakeFfmpegPlayer(bytes, info);
}

}  // namespace rserve::media
