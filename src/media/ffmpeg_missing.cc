// Stands in for ffmpeg_video.cc where FFmpeg's libraries were not found.

#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "src/media/ffmpeg_video.h"

namespace rserve::media {
namespace {

struct Mark {
  size_t at;
  absl::string_view bytes;
  const char* name;
};
constexpr Mark kMarks[] = {{4, "ftyp", "an MP4 or QuickTime"},
                           {4, "moov", "a QuickTime"},
                           {0, "\x1a\x45\xdf\xa3", "a Matroska or WebM"},
                           {8, "AVI ", "an AVI"},
                           {0, "OggS", "an Ogg"},
                           {0, "FLV", "an FLV"},
                           {0, "\x30\x26\xb2\x75", "an ASF"},
                           {0, "DKIF", "an IVF"}};

}  // namespace

bool VideoFilesSupported() { return false; }

absl::StatusOr<VideoInfo> ReadFfmpegVideo(absl::Span<const uint8_t> bytes, const ImageLimits&) {
  for (const Mark& mark : kMarks) {
    if (bytes.size() < mark.at + mark.bytes.size()) continue;
    if (std::memcmp(bytes.data() + mark.at, mark.bytes.data(), mark.bytes.size()) != 0) continue;
    return absl::UnimplementedError(
        absl::StrCat("the file is ", mark.name,
                     " video; this build reads animated GIFs only, since it was made "
                     "without FFmpeg's libraries"));
  }
  return absl::InvalidArgumentError(absl::StrCat("no GIF file (", bytes.size(), " bytes)"));
}

std::unique_ptr<FramePlayer> MakeFfmpegPlayer(absl::Span<const uint8_t>, const VideoInfo&) {
  return nullptr;  // nothing was read
}

}  // namespace rserve::media
