// The frames of a GIF file, one after another: where each lies on the screen, when, and its pixels.
// The decoder is ours: the format is an LZW code and a palette, and so every byte is checked in one
// place and no build lacks it.

#ifndef RSERVE_SRC_MEDIA_GIF_FRAMES_H_
#define RSERVE_SRC_MEDIA_GIF_FRAMES_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace rserve::media {

// What the screen becomes of before the frame after this one is drawn.
enum class GifDisposal { kKeep, kBackground, kPrevious };

struct GifFrame {
  int32_t x = 0, y = 0, width = 0, height = 0;
  bool interlaced = false;
  int transparent = -1;               // palette index
  absl::Span<const uint8_t> palette;  // RGB triples; empty: gray
  int32_t delay_cs = 0;               // hundredths of a second, as written
  GifDisposal disposal = GifDisposal::kKeep;
  size_t data = 0;  // where the code size and the sub-blocks begin
};

// Reads the blocks between pixels; never the pixels. The bytes outlive it.
class GifFrameReader {
 public:
  // INVALID_ARGUMENT when the file ends in the screen's description or its palette.
  static absl::StatusOr<GifFrameReader> Open(absl::Span<const uint8_t> bytes);

  int32_t screen_width() const { return screen_width_; }
  int32_t screen_height() const { return screen_height_; }
  int background() const { return background_; }  // index into a palette

  // The next frame; false at the file's end. INVALID_ARGUMENT for a frame without pixels.
  absl::StatusOr<bool> Next(GifFrame* frame);

 private:
  explicit GifFrameReader(absl::Span<const uint8_t> bytes) : bytes_(bytes) {}

  absl::Span<const uint8_t> bytes_;
  size_t at_ = 0;
  bool in_pixels_ =
      false;  // `at_` is where a frame's pixels begin: they are passed by the next Next
  int32_t screen_width_ = 0, screen_height_ = 0;
  int background_ = 0;
  absl::Span<const uint8_t> palette_;
  GifDisposal disposal_ = GifDisposal::kKeep;  // stays until a frame names another, as in Pillow
};

// The frame's palette indices, width * height of them, row by row, also of an interlaced frame.
// INVALID_ARGUMENT for codes that are none or end before the pixels do.
absl::Status DecodeGifIndices(absl::Span<const uint8_t> bytes, const GifFrame& frame,
                              absl::Span<uint8_t> indices);

using GifPalette = std::array<std::array<uint8_t, 3>, 256>;
// The frame's colours; beyond, or without, its palette what Pillow shows: gray.
GifPalette GifColours(const GifFrame& frame);

}  // namespace rserve::media

#endif  // RSERVE_SRC_MEDIA_GIF_FRAMES_H_
