// GIF as a still picture: the first frame on the logical screen.

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <vector>

#include "absl/status/status.h"
#include "src/media/bytes.h"
#include "src/media/decoders.h"
#include "src/media/gif_frames.h"

namespace rserve::media {
namespace {

using Bytes = absl::Span<const uint8_t>;

struct FirstFrame {
  GifFrame frame;
  int32_t screen_width = 0;  // at least the frame's right edge, as Pillow extends it
  int32_t screen_height = 0;
};

absl::StatusOr<FirstFrame> FindFirstFrame(Bytes bytes) {
  absl::StatusOr<GifFrameReader> reader = GifFrameReader::Open(bytes);
  if (!reader.ok()) return reader.status();
  FirstFrame first;
  absl::StatusOr<bool> found = reader->Next(&first.frame);
  if (!found.ok()) return found.status();
  if (!*found) return absl::InvalidArgumentError("damaged GIF: no frame in it");
  first.screen_width = std::max(reader->screen_width(), first.frame.x + first.frame.width);
  first.screen_height = std::max(reader->screen_height(), first.frame.y + first.frame.height);
  return first;
}

}  // namespace

bool LooksLikeGif(Bytes bytes) {
  return bytes.size() >= 6 && (std::memcmp(bytes.data(), "GIF87a", 6) == 0 ||
                               std::memcmp(bytes.data(), "GIF89a", 6) == 0);
}

absl::Status ReadGifHeader(Bytes bytes, ImageHeader& header) {
  absl::StatusOr<FirstFrame> first = FindFirstFrame(bytes);
  if (!first.ok()) return first.status();
  header.format = ImageFormat::kGif;
  header.width = first->screen_width;
  header.height = first->screen_height;
  return absl::OkStatus();
}

absl::StatusOr<RgbImage> DecodeGif(Bytes bytes, const ImageHeader& header) {
  absl::StatusOr<FirstFrame> first = FindFirstFrame(bytes);
  if (!first.ok()) return first.status();
  const GifFrame& frame = first->frame;
  std::vector<uint8_t> indices(static_cast<size_t>(int64_t{frame.width} * frame.height));
  absl::Status status = DecodeGifIndices(bytes, frame, absl::MakeSpan(indices));
  if (!status.ok()) return status;
  GifPalette palette = GifColours(frame);
  if (frame.transparent >= 0) palette[static_cast<size_t>(frame.transparent)].fill(255);
  RgbImage image;
  image.width = static_cast<int32_t>(header.width);
  image.height = static_cast<int32_t>(header.height);
  // Around a frame that is smaller than the screen: transparent, or the palette's first colour.
  const std::array<uint8_t, 3>& around =
      palette[frame.transparent >= 0 ? static_cast<size_t>(frame.transparent) : 0];
  image.data.resize(static_cast<size_t>(header.width * header.height) * 3);
  for (size_t i = 0; i < image.data.size(); i += 3) {
    std::memcpy(image.data.data() + i, around.data(), 3);
  }
  const uint8_t* index = indices.data();
  for (int32_t y = 0; y < frame.height; ++y) {
    uint8_t* pixel = image.data.data() + (int64_t{frame.y + y} * image.width + frame.x) * 3;
    for (int32_t x = 0; x < frame.width; ++x, pixel += 3) {
      std::memcpy(pixel, palette[*index++].data(), 3);
    }
  }
  return image;
}

}  // namespace rserve::media
