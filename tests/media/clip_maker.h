// Small video files, made by FFmpeg's own encoders and muxers.

#ifndef RSERVE_TESTS_MEDIA_CLIP_MAKER_H_
#define RSERVE_TESTS_MEDIA_CLIP_MAKER_H_

#include <cstdint>
#include <string>
#include <vector>

namespace rserve::testing {

struct ClipOptions {
  std::string container = "matroska";
  // Lossless, RGB. "mpeg4" and "libvpx" are lossy, "mpeg4" with reordered frames.
  std::string codec = "ffv1";
  int width = 32;
  int height = 24;
  int group = 6;    // frames from one entry point to the next
  int ticks = 100;  // so many in `ticks_in` seconds: 30000 in 1001 are 29.97 a second
  int ticks_in = 1;
  std::vector<int64_t> times;  // of the frames, in ticks
  int rotation = 0;            // degrees clockwise that players turn it by
};

// `frames`: width * height RGB8 pixels each, one for each time. Empty when it cannot be made.
std::vector<uint8_t> MakeClip(const ClipOptions& options,
                              const std::vector<std::vector<uint8_t>>& frames);

// Frames that differ everywhere from one to the next, smoothly within each.
std::vector<std::vector<uint8_t>> ClipFrames(int width, int height, int count);

}  // namespace rserve::testing

#endif  // RSERVE_TESTS_MEDIA_CLIP_MAKER_H_
