// Video files through FFmpeg's libraries: frames, times, any order of frames, turned videos,
// hostile bytes. video_missing_test.cc has what holds where these libraries are missing.

#include <cmath>
#include <string>
#include <vector>

#include "src/media/ffmpeg_video.h"
#include "src/media/video.h"
#include "src/model/spec/video_plan.h"
#include "tests/core/rng.h"
#include "tests/media/clip_maker.h"
#include "tests/support/catch.h"

namespace rserve::testing {
namespace {

using media::ImageLimits;
using media::MakeFramePlayer;
using media::ReadVideo;
using media::RgbImage;
using media::VideoInfo;

std::vector<int64_t> EvenTimes(int count, int64_t step) {
  std::vector<int64_t> times;
  for (int i = 0; i < count; ++i) times.push_back(i * step);
  return times;
}

VideoInfo MustRead(const std::vector<uint8_t>& bytes) {
  const auto info = ReadVideo(bytes, ImageLimits());
  INFO(info.status().ToString());
  REQUIRE(info.ok());
  return *info;
}

TEST_CASE("a lossless video shows the frames that were put in, at their times, in any order") {
  const std::string container = GENERATE("matroska", "mov", "avi");
  ClipOptions options;
  options.container = container;
  options.ticks = 10;  // AVI shows a frame at every tick
  options.times = EvenTimes(20, 1);
  const auto frames = ClipFrames(options.width, options.height, 20);
  const std::vector<uint8_t> bytes = MakeClip(options, frames);
  CAPTURE(container);
  REQUIRE_FALSE(bytes.empty());
  const VideoInfo info = MustRead(bytes);
  CHECK(info.width == options.width);
  CHECK(info.height == options.height);
  REQUIRE(info.frames() == 20);
  for (int64_t i = 0; i < 20; ++i) {
    CHECK(std::abs(info.begin_s[static_cast<size_t>(i)] - 0.1 * static_cast<double>(i)) < 0.002);
  }
  CHECK(std::abs(info.duration_s - 2) < 0.11);
  const auto player = MakeFramePlayer(bytes, info);
  for (const int64_t i : {0, 1, 2, 7, 19, 19, 3, 12, 13, 0}) {
    const auto image = player->Show(i);
    CAPTURE(i);
    INFO(image.status().ToString());
    REQUIRE(image.ok());
    CHECK((image->data == frames[static_cast<size_t>(i)]));
  }
  CHECK(player->Show(20).status().code() == absl::StatusCode::kInvalidArgument);
  CHECK(player->Show(-1).status().code() == absl::StatusCode::kInvalidArgument);
}

TEST_CASE("frames that are decoded out of order, and far from the beginning, are the same frames") {
  const std::string container = GENERATE("mp4", "matroska", "mpegts", "avi", "webm");
  ClipOptions options;
  options.container = container;
  options.codec = container == "webm" ? "libvpx" : "mpeg4";
  options.width = 48, options.height = 32;
  options.ticks = 25;
  options.times = EvenTimes(30, 1);
  const auto frames = ClipFrames(options.width, options.height, 30);
  const std::vector<uint8_t> bytes = MakeClip(options, frames);
  CAPTURE(container);
  REQUIRE_FALSE(bytes.empty());
  const VideoInfo info = MustRead(bytes);
  REQUIRE(info.frames() == 30);
  std::vector<RgbImage> in_order;
  const auto player = MakeFramePlayer(bytes, info);
  for (int64_t i = 0; i < 30; ++i) {
    auto image = player->Show(i);
    CAPTURE(i);
    INFO(image.status().ToString());
    REQUIRE(image.ok());
    double sum = 0;
    for (size_t k = 0; k < image->data.size(); ++k) {
      sum += std::abs(int{image->data[k]} - int{frames[static_cast<size_t>(i)][k]});
    }
    CHECK(sum / static_cast<double>(image->data.size()) < 6);
    in_order.push_back(*std::move(image));
  }
  for (const int64_t i : {29, 14, 15, 22, 1}) {
    const auto alone = MakeFramePlayer(bytes, info)->Show(i);
    CAPTURE(i);
    REQUIRE(alone.ok());
    CHECK((alone->data == in_order[static_cast<size_t>(i)].data));
  }
}

TEST_CASE("frames at uneven times keep them") {
  ClipOptions options;
  options.times = {0, 7, 8, 50, 300, 301};
  const std::vector<uint8_t> bytes = MakeClip(options, ClipFrames(32, 24, 6));
  REQUIRE_FALSE(bytes.empty());
  const VideoInfo info = MustRead(bytes);
  REQUIRE(info.frames() == 6);
  for (size_t i = 0; i < 6; ++i) {
    CHECK(std::abs(info.begin_s[i] - static_cast<double>(options.times[i]) / 100) < 0.002);
  }
}

TEST_CASE("frames at a rate that is no whole number stand at fractions of a second") {
  const std::string container = GENERATE("mp4", "mov", "matroska", "webm", "avi", "mpegts");
  ClipOptions options;
  options.container = container;
  options.codec = container == "webm" ? "libvpx" : "mpeg4";
  options.ticks = 30000, options.ticks_in = 1001;
  options.times = EvenTimes(12, 1);
  const std::vector<uint8_t> bytes = MakeClip(options, ClipFrames(32, 24, 12));
  CAPTURE(container);
  REQUIRE_FALSE(bytes.empty());
  const VideoInfo info = MustRead(bytes);
  REQUIRE(info.frames() == 12);
  // Matroska counts milliseconds, MPEG-TS 90000ths.
  for (size_t i = 0; i < 12; ++i) {
    CHECK(std::abs(info.begin_s[i] - static_cast<double>(i) * 1001 / 30000) < 0.00101);
  }
  // Its temporal positions are those of the exact interval between two patches of two frames.
  const auto by_time = model::TemporalPositions(info.begin_s, 2, 24);
  const auto by_rate = model::TemporalPositions(6, 2 * 1001.0 / 30000, 24);
  REQUIRE(by_time.ok());
  REQUIRE(by_rate.ok());
  CHECK(*by_time == *by_rate);
  CHECK(by_rate->back() == 8);  // floor(5 * 0.06673 * 24); cut to whole seconds all would be 0
}

TEST_CASE("a video that players turn is planned and shown turned") {
  ClipOptions options;
  options.container = "mov";
  options.times = EvenTimes(2, 10);
  options.rotation = 90;
  const auto frames = ClipFrames(options.width, options.height, 2);
  const std::vector<uint8_t> bytes = MakeClip(options, frames);
  REQUIRE_FALSE(bytes.empty());
  const VideoInfo info = MustRead(bytes);
  CHECK(info.width == options.height);
  CHECK(info.height == options.width);
  const auto image = MakeFramePlayer(bytes, info)->Show(1);
  INFO(image.status().ToString());
  REQUIRE(image.ok());
  // Shown by a quarter clockwise: the first stored row is the last column.
  for (int x = 0; x < options.width; ++x) {
    const size_t stored = static_cast<size_t>(x) * 3;
    const size_t shown = (static_cast<size_t>(x) * 24 + 23) * 3;
    CHECK(image->data[shown] == frames[1][stored]);
  }
}

TEST_CASE("a frame over max_image_pixels, and what is no video, is refused in words") {
  ClipOptions options;
  options.times = {0};
  const std::vector<uint8_t> bytes = MakeClip(options, ClipFrames(32, 24, 1));
  REQUIRE_FALSE(bytes.empty());
  const absl::Status large = ReadVideo(bytes, {32 * 24 - 1}).status();
  CHECK(large.code() == absl::StatusCode::kResourceExhausted);
  CHECK(large.message().find("max_image_pixels") != std::string::npos);
  CHECK(ReadVideo(bytes, {32 * 24}).ok());
  for (const std::string& text : {std::string(), std::string("no video at all"),
                                  std::string("#EXTM3U\n#EXTINF:1,\nfile:///etc/passwd\n"),
                                  std::string("ffconcat version 1.0\nfile /etc/passwd\n")}) {
    const std::vector<uint8_t> other(text.begin(), text.end());
    CHECK(ReadVideo(other, ImageLimits()).status().code() == absl::StatusCode::kInvalidArgument);
  }
}

// Reads what can be read; an end in words is as good as a picture.
void TryAll(const std::vector<uint8_t>& bytes) {
  const auto info = ReadVideo(bytes, {64 * 64});
  if (!info.ok()) return;
  CHECK(info->frames() <= static_cast<int64_t>(bytes.size()));
  const auto player = MakeFramePlayer(bytes, *info);
  for (int64_t i = 0; i < std::min<int64_t>(info->frames(), 12); i += 3) {
    const auto image = player->Show(i);
    if (image.ok()) CHECK(image->data.size() == size_t{3} * info->width * info->height);
  }
}

TEST_CASE("damaged video files end in words, whatever byte is wrong or missing") {
  ClipOptions options;
  const auto [container, codec] = GENERATE(table<std::string, std::string>({{"matroska", "ffv1"},
                                                                            {"mov", "ffv1"},
                                                                            {"avi", "ffv1"},
                                                                            {"matroska", "mpeg4"},
                                                                            {"mp4", "mpeg4"},
                                                                            {"mpegts", "mpeg4"},
                                                                            {"avi", "mpeg4"},
                                                                            {"webm", "libvpx"}}));
  options.container = container;
  options.codec = codec;
  options.ticks = 10;
  options.times = EvenTimes(8, 1);
  const std::vector<uint8_t> bytes = MakeClip(options, ClipFrames(32, 24, 8));
  CAPTURE(options.container, options.codec);
  REQUIRE_FALSE(bytes.empty());
  for (size_t size = 0; size < bytes.size(); size += 16 + bytes.size() / 80) {
    CAPTURE(size);
    TryAll({bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size)});
  }
  test::Rng rng(1);
  for (int round = 0; round < 60; ++round) {
    CAPTURE(round);
    std::vector<uint8_t> damaged = bytes;
    const int64_t changes = rng.In(1, 6);
    for (int64_t i = 0; i < changes; ++i) {
      // Structure is at the beginning, or at the end.
      const auto last = static_cast<int64_t>(bytes.size()) - 1;
      int64_t at = rng.In(0, last);
      if (rng.Percent(30)) at = rng.In(0, std::min<int64_t>(last, 700));
      if (rng.Percent(30)) at = rng.In(std::max<int64_t>(0, last - 700), last);
      damaged[static_cast<size_t>(at)] = static_cast<uint8_t>(rng.Next());
    }
    TryAll(damaged);
  }
}

}  // namespace
}  // namespace rserve::testing
