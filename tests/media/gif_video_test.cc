// Animated GIFs as videos: frames are Pillow's, times are the file's, and nothing hostile is drawn.

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "src/media/gif_video.h"
#include "tests/media/media_test_util.h"
#include "tests/support/catch.h"

namespace rserve::media {
namespace {

TEST_CASE("the frames of an animation are Pillow's, forwards and backwards", "[media]") {
  std::string file;
  ByteVector bytes;
  VideoInfo info;
  std::vector<std::vector<std::string>> rows = ReadTable("animations.txt");
  REQUIRE(rows.size() == 42);
  int64_t hundredths = 0;
  for (const auto& row : rows) {
    if (row[0] != file) {
      file = row[0];
      bytes = ReadData(file);
      const auto read = ReadGifVideo(bytes, {});
      REQUIRE(read.ok());
      info = *read;
      hundredths = 0;
    }
    int64_t frame = 0, delay = 0;
    REQUIRE((absl::SimpleAtoi(row[1], &frame) && absl::SimpleAtoi(row[2], &delay)));
    CAPTURE(file, frame);
    REQUIRE(frame < info.frames());
    CHECK(info.begin_s[static_cast<size_t>(frame)] == static_cast<double>(hundredths) / 100.0);
    hundredths += delay;
    if (frame + 1 == info.frames()) {
      CHECK(info.duration_s == static_cast<double>(hundredths) / 100.0);
    }
    GifPlayer player(bytes, info);
    for (const int64_t number : {frame, int64_t{0}, frame}) {
      const auto image = player.Show(number);
      REQUIRE(image.ok());
      CHECK(image->width == info.width);
      if (number == frame) CHECK(Fnv64(image->data.data(), image->data.size()) == row[3]);
    }
  }
}

TEST_CASE("the first frame of an animation is the still picture of its file", "[media]") {
  for (const char* name : {"anim_keep.gif", "anim_mixed.gif", "anim_small_clear.gif"}) {
    CAPTURE(name);
    const ByteVector bytes = ReadData(name);
    const auto info = ReadGifVideo(bytes, {});
    const auto still = DecodeImage(bytes, {});
    REQUIRE((info.ok() && still.ok()));
    const auto first = GifPlayer(bytes, *info).Show(0);
    REQUIRE(first.ok());
    CHECK(first->data == still->data);
  }
}

TEST_CASE("an animation that is cut anywhere has fewer frames or says so", "[media][hostile]") {
  const ByteVector whole = ReadData("anim_mixed.gif");
  for (size_t size = 0; size < whole.size(); ++size) {
    const ByteVector bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
    const auto info = ReadGifVideo(bytes, {});
    if (!info.ok()) {
      CHECK(absl::IsInvalidArgument(info.status()));
      continue;
    }
    GifPlayer player(bytes, *info);
    for (int64_t i = 0; i <= info->frames(); ++i) {
      const auto image = player.Show(i);
      if (!image.ok()) CHECK(absl::IsInvalidArgument(image.status()));
      if (i == info->frames()) CHECK_FALSE(image.ok());
    }
  }
}

TEST_CASE("an animation over a limit is refused before it is drawn", "[media][hostile]") {
  // A screen of 60000 x 30000 and frames of one pixel each, 27 bytes a frame.
  ByteVector bytes = {'G',  'I', 'F', '8', '9', 'a', 0x60, 0xea, 0x30, 0x75,
                      0x80, 0,   0,   1,   2,   3,   4,    5,    6};
  const ByteVector frame = {',', 0, 0, 0, 0, 1, 0, 1, 0, 0, 2, 2, 0x44, 0x01, 0};
  bytes.insert(bytes.end(), frame.begin(), frame.end());
  CHECK(absl::IsResourceExhausted(ReadGifVideo(bytes, {}).status()));
  for (int i = 0; i < 40; ++i) bytes.insert(bytes.end(), frame.begin(), frame.end());
  const auto many = ReadGifVideo(bytes, {int64_t{2} << 30});
  CHECK(absl::IsResourceExhausted(many.status()));
  CHECK(many.status().ToString().find("max_image_pixels") != std::string::npos);
  // 8 x 8, but too many.
  bytes[6] = bytes[8] = 8;
  bytes[7] = bytes[9] = 0;
  REQUIRE(ReadGifVideo(bytes, {}).ok());
  CHECK(ReadGifVideo(bytes, {})->frames() == 41);
  for (int64_t i = 41; i <= kMaxGifFrames; ++i)
    bytes.insert(bytes.end(), frame.begin(), frame.end());
  CHECK(absl::IsResourceExhausted(ReadGifVideo(bytes, {}).status()));
  // A later frame that lies wholly or partly outside is cut off.
  ByteVector outside = {'G', 'I', 'F', '8', '9', 'a', 2, 0, 2, 0, 0x80, 0, 0, 1, 2, 3, 4, 5, 6};
  outside.insert(outside.end(), frame.begin(), frame.end());
  ByteVector far = frame;
  far[1] = 0xff;
  far[2] = 0xff;
  outside.insert(outside.end(), far.begin(), far.end());
  const auto info = ReadGifVideo(outside, {});
  REQUIRE(info.ok());
  REQUIRE(info->frames() == 2);
  CHECK(GifPlayer(outside, *info).Show(1).ok());
  // A later frame that is larger than the screen would take 4 GiB.
  ByteVector large = frame;
  std::fill(large.begin() + 5, large.begin() + 9, uint8_t{0xff});
  outside.insert(outside.end(), large.begin(), large.end());
  const absl::Status refused = ReadGifVideo(outside, {}).status();
  CHECK(absl::IsInvalidArgument(refused));
  CHECK(refused.ToString().find("frame 2 of 65535x65535") != std::string::npos);
  const ByteVector changed = outside;  // after it was planned
  GifPlayer player(changed, *info);
  CHECK(player.Show(1).ok());
  CHECK(absl::IsInvalidArgument(player.Show(2).status()));
}

}  // namespace
}  // namespace rserve::media
