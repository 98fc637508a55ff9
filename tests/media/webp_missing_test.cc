// A build without libwebp: this program links webp_missing.cc in the decoder's place.

#include "src/media/image.h"
#include "tests/media/media_test_util.h"
#include "tests/support/catch.h"

namespace rserve::media {
namespace {

// A WebP file's header: lossy, 16 x 16.
const ByteVector kWebp = {'R',  'I',  'F', 'F',  22,   0,    0,  0, 'W', 'E',
                          'B',  'P',  'V', 'P',  '8',  ' ',  10, 0, 0,   0,
                          0x30, 0x01, 0,   0x9d, 0x01, 0x2a, 16, 0, 16,  0};

TEST_CASE("a build without libwebp refuses WebP by name and reads everything else", "[media]") {
  CHECK_FALSE(ImageFormatSupported(ImageFormat::kWebp));
  CHECK(ImageFormatSupported(ImageFormat::kPng));
  for (const absl::Status& status :
       {ReadImageHeader(kWebp, {}).status(), DecodeImage(kWebp, {}).status()}) {
    INFO(status.ToString());
    CHECK(absl::IsUnimplemented(status));
    CHECK(status.ToString().find("WebP") != std::string::npos);
  }
  CHECK(DecodeImage(ReadData("rgb8.png"), {}).ok());
  CHECK(DecodeImage(ReadData("gray.jpg"), {}).ok());
}

}  // namespace
}  // namespace rserve::media
