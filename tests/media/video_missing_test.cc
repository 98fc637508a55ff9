// A build without FFmpeg's libraries.

#include <string>
#include <vector>

#include "src/media/video.h"
#include "tests/support/catch.h"

namespace rserve::media {
namespace {

TEST_CASE("a build without FFmpeg refuses video files by the container's name") {
  CHECK_FALSE(VideoFilesSupported());
  const std::string mp4 = std::string("\0\0\0\x20", 4) + "ftypisom" + std::string(40, '\0');
  const std::string webm = "\x1a\x45\xdf\xa3" + std::string(40, '\0');
  const std::string avi = "RIFF....AVI LIST";
  for (const auto& [file, name] :
       {std::pair(mp4, "MP4"), std::pair(webm, "WebM"), std::pair(avi, "AVI")}) {
    const std::vector<uint8_t> bytes(file.begin(), file.end());
    const absl::Status status = ReadVideo(bytes, ImageLimits()).status();
    CHECK(status.code() == absl::StatusCode::kUnimplemented);
    CHECK(std::string(status.message()).find(name) != std::string::npos);
  }
  const std::vector<uint8_t> none = {'f', 't', 'y', 'p'};
  CHECK(ReadVideo(none, ImageLimits()).status().code() == absl::StatusCode::kInvalidArgument);
  CHECK(ReadVideo({}, ImageLimits()).status().code() == absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace rserve::media
