// An animated GIF as a video: what its headers say, and its frames as they are seen.
//
// Frames are what Pillow shows of them: transparent pixels leave what was there, disposal restores
// the frame's place or clears it (to white where the first frame has a transparent colour,
// otherwise to the frame's transparent colour or the background's), and what nobody has drawn is
// white. Unlike Pillow, a later frame that reaches over the screen is cut off there, and one that
// is larger than the screen is refused: the frames of a video are of one size.

#ifndef RSERVE_SRC_MEDIA_GIF_VIDEO_H_
#define RSERVE_SRC_MEDIA_GIF_VIDEO_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "src/media/gif_frames.h"
#include "src/media/image.h"
#include "src/media/video.h"

namespace rserve::media {

inline constexpr int64_t kMaxGifFrames = 65536;
// Frames * width * height, over ImageLimits::max_pixels: what decoding all of a file may touch.
inline constexpr int64_t kMaxGifPixelsFactor = 16;

// Walks the file's blocks; decodes nothing. INVALID_ARGUMENT for what is no GIF or damaged before
// its first frame's pixels, RESOURCE_EXHAUSTED over a limit.
// Times are the frames' delays; one below two hundredths of a second counts as ten, as browsers
// show it.
absl::StatusOr<VideoInfo> ReadGifVideo(absl::Span<const uint8_t> bytes, const ImageLimits& limits);

// Frame n is drawn on frame n - 1, and an earlier one begins again at the first. Holds 4 to 8 bytes
// a pixel of the screen.
class GifPlayer final : public FramePlayer {
 public:
  // `info` is ReadGifVideo's of the same bytes.
  GifPlayer(absl::Span<const uint8_t> bytes, const VideoInfo& info);

  absl::StatusOr<RgbImage> Show(int64_t number) override;

 private:
  struct Pixel {
    uint8_t r = 0, g = 0, b = 0;
    bool opaque = false;
  };
  absl::Status Restart();
  // Draws the next frame.
  absl::Status Draw();
  void Dispose();
  // Calls row(first pixel on the screen, first column of the frame, columns) for what of the frame
  // is on the screen.
  template <typename Row>
  void ForRows(const GifFrame& frame, Row row);

  const absl::Span<const uint8_t> bytes_;
  const int32_t width_, height_;
  std::unique_ptr<GifFrameReader> reader_;  // null: begins at the first frame
  int64_t shown_ = -1;                      // the frame that is on the screen
  GifFrame frame_;                          // that one
  bool alpha_ = false;                      // the first frame has a transparent colour
  Pixel cleared_;                           // what its disposal leaves
  std::vector<Pixel> screen_;
  std::vector<Pixel> saved_;  // what was in its place, for GifDisposal::kPrevious
  std::vector<uint8_t> indices_;
};

}  // namespace rserve::media

#endif  // RSERVE_SRC_MEDIA_GIF_VIDEO_H_
