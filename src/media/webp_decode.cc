// WebP pixels with libwebp. Built where it was found; webp_missing.cc stands in elsewhere.

#include <webp/decode.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "src/media/composite.h"
#include "src/media/decoders.h"
#include "src/media/oriented_writer.h"
#include "src/media/webp_info.h"

namespace rserve::media {
namespace {

// Decodes one still stream into rows of `channels` bytes a pixel (3: RGB, 4: RGBA).
absl::Status DecodeInto(absl::Span<const uint8_t> stream, int32_t width, int32_t height,
                        int32_t channels, uint8_t* out, size_t stride, size_t size) {
  WebPDecoderConfig config;
  if (WebPInitDecoderConfig(&config) == 0) return absl::InternalError("libwebp of another version");
  if (WebPGetFeatures(stream.data(), stream.size(), &config.input) != VP8_STATUS_OK ||
      config.input.width != width || config.input.height != height) {
    return absl::InvalidArgumentError("cannot decode WebP: no image of the announced size");
  }
  config.output.colorspace = channels == 4 ? MODE_RGBA : MODE_RGB;
  config.output.is_external_memory = 1;
  config.output.u.RGBA.rgba = out;
  config.output.u.RGBA.stride = static_cast<int>(stride);
  config.output.u.RGBA.size = size;
  const VP8StatusCode code = WebPDecode(stream.data(), stream.size(), &config);
  WebPFreeDecBuffer(&config.output);
  if (code == VP8_STATUS_OK) return absl::OkStatus();
  if (code == VP8_STATUS_OUT_OF_MEMORY) {
    return absl::ResourceExhaustedError("cannot decode WebP: out of memory");
  }
  return absl::InvalidArgumentError(
      absl::StrCat("cannot decode WebP: the data is damaged or ends early (libwebp status ",
                   static_cast<int>(code), ")"));
}

}  // namespace

bool ImageFormatSupported(ImageFormat) { return true; }

absl::StatusOr<RgbImage> DecodeWebp(absl::Span<const uint8_t> bytes, const ImageHeader& header) {
  absl::StatusOr<WebpInfo> info = ReadWebpInfo(bytes);
  if (!info.ok()) return info.status();
  const RawSize size = StoredSize(header);
  if (info->animated && info->frame.empty()) {
    return absl::InvalidArgumentError("cannot decode WebP: an animation without a frame");
  }
  const int32_t channels = info->alpha ? 4 : 3;
  const size_t stride = static_cast<size_t>(size.width) * static_cast<size_t>(channels);
  // An animation's canvas is clear (black where nothing announces alpha) around its first frame.
  std::vector<uint8_t> rows(stride * static_cast<size_t>(size.height));
  absl::Status status;
  if (info->animated) {
    const size_t offset = static_cast<size_t>(info->frame_y) * stride +
                          static_cast<size_t>(info->frame_x) * static_cast<size_t>(channels);
    status = DecodeInto(info->frame, static_cast<int32_t>(info->frame_width),
                        static_cast<int32_t>(info->frame_height), channels, rows.data() + offset,
                        stride, rows.size() - offset);
  } else {
    status = DecodeInto(bytes, size.width, size.height, channels, rows.data(), stride, rows.size());
  }
  if (!status.ok()) return status;

  RgbImage image;
  if (channels == 3 && header.orientation == 1) {
    image.width = size.width;
    image.height = size.height;
    image.data = std::move(rows);
    return image;
  }
  OrientedWriter writer(image, size.width, size.height, header.orientation);
  for (int32_t y = 0; y < size.height; y += kBandRows) {
    const int32_t count = std::min(kBandRows, size.height - y);
    uint8_t* band = rows.data() + static_cast<size_t>(y) * stride;
    if (channels == 4) {
      CompositeOnWhite(band, static_cast<size_t>(count) * static_cast<size_t>(size.width), band);
    }
    writer.Write(y, count, band);
  }
  return image;
}

}  // namespace rserve::media
