// WebP's container: sizes, orientation, the first frame. Needs no library, so that a build without
// libwebp says so in words and not as "no image".

#include <cstddef>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "src/media/bytes.h"
#include "src/media/decoders.h"
#include "src/media/exif.h"
#include "src/media/webp_info.h"

namespace rserve::media {
namespace {

using Bytes = absl::Span<const uint8_t>;

absl::Status Damaged(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("damaged WebP header: ", what));
}

uint32_t LoadLe24(const uint8_t* p) { return LoadLe16(p) | (uint32_t{p[2]} << 16); }

// Size and alpha of a frame's own bit stream: "VP8 " (lossy) or "VP8L" (lossless).
absl::Status ReadStream(const uint8_t* kind, Bytes data, WebpInfo& info) {
  if (std::memcmp(kind, "VP8L", 4) == 0) {
    if (data.size() < 5 || data[0] != 0x2f) return Damaged("no VP8L signature");
    const uint32_t bits = LoadLe32(data.data() + 1);
    info.width = (bits & 0x3fff) + 1;
    info.height = ((bits >> 14) & 0x3fff) + 1;
    info.alpha = ((bits >> 28) & 1) != 0;
    return absl::OkStatus();
  }
  if (data.size() < 10 || (data[0] & 1) != 0 || data[3] != 0x9d || data[4] != 0x01 ||
      data[5] != 0x2a) {
    return Damaged("no VP8 key frame");
  }
  info.width = LoadLe16(data.data() + 6) & 0x3fff;
  info.height = LoadLe16(data.data() + 8) & 0x3fff;
  return absl::OkStatus();
}

// EXIF blocks come with JPEG's prefix or without.
int32_t OrientationOf(Bytes exif) {
  if (exif.size() >= 6 && std::memcmp(exif.data(), "Exif\0", 6) == 0) exif = exif.subspan(6);
  return ExifOrientation(exif);
}

}  // namespace

absl::StatusOr<WebpInfo> ReadWebpInfo(Bytes bytes) {
  WebpInfo info;
  bool extended = false;
  size_t at = 12;
  while (bytes.size() - at >= 8) {
    const uint8_t* chunk = bytes.data() + at;
    const size_t length = LoadLe32(chunk + 4);
    // A chunk that the file ends in is the decoder's affair; its beginning tells the size.
    const Bytes data = bytes.subspan(at + 8, length);
    const auto is = [chunk](const char* name) { return std::memcmp(chunk, name, 4) == 0; };
    if (is("VP8X")) {
      if (extended || info.width != 0 || data.size() < 10) return Damaged("a wrong VP8X chunk");
      extended = true;
      info.alpha = (data[0] & 0x10) != 0;
      info.animated = (data[0] & 0x02) != 0;
      info.width = LoadLe24(data.data() + 4) + 1;
      info.height = LoadLe24(data.data() + 7) + 1;
    } else if (is("VP8 ") || is("VP8L")) {
      if (!extended) {
        if (absl::Status status = ReadStream(chunk, data, info); !status.ok()) return status;
        return info;
      }
    } else if (is("ANMF") && info.animated && info.frame.empty()) {
      constexpr size_t kFrameHead = 16;
      if (data.size() < kFrameHead) return Damaged("a wrong ANMF chunk");
      info.frame_x = LoadLe24(data.data()) * 2;
      info.frame_y = LoadLe24(data.data() + 3) * 2;
      info.frame_width = LoadLe24(data.data() + 6) + 1;
      info.frame_height = LoadLe24(data.data() + 9) + 1;
      info.frame = data.subspan(kFrameHead);
      if (info.frame.empty() || info.frame_x + info.frame_width > info.width ||
          info.frame_y + info.frame_height > info.height) {
        return Damaged("a frame outside its canvas");
      }
    } else if (is("EXIF") && info.orientation == 1) {
      info.orientation = OrientationOf(data);
    }
    if (length > bytes.size() - at - 8) break;
    at += 8 + length + length % 2;
    if (at > bytes.size()) break;
  }
  if (info.width == 0) return Damaged(absl::StrCat("no image in ", bytes.size(), " bytes"));
  return info;
}

bool LooksLikeWebp(Bytes bytes) {
  return bytes.size() >= 12 && std::memcmp(bytes.data(), "RIFF", 4) == 0 &&
         std::memcmp(bytes.data() + 8, "WEBP", 4) == 0;
}

absl::Status ReadWebpHeader(Bytes bytes, ImageHeader& header) {
  absl::StatusOr<WebpInfo> info = ReadWebpInfo(bytes);
  if (!info.ok()) return info.status();
  header.format = ImageFormat::kWebp;
  header.width = info->width;
  header.height = info->height;
  header.orientation = info->orientation;
  return absl::OkStatus();
}

}  // namespace rserve::media
