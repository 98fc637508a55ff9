#include <string>

#include "src/media/image_processor.h"
#include "tests/media/media_test_util.h"
#include "tests/support/catch.h"

namespace rserve::media {
namespace {

TEST_CASE("bicubic resize is bit-equal to Pillow's", "[media]") {
  for (const TableRow& row : ReadTable("resize.txt")) {
    const auto seed = static_cast<uint32_t>(std::stoul(row[0]));
    RgbImage source = SeededImage(seed, std::stoi(row[1]), std::stoi(row[2]));
    if (seed % 2 == 1) {  // black and white only: the cubic overshoots on both sides
      for (uint8_t& sample : source.data) sample = sample < 128 ? 0 : 255;
    }
    const RgbImage image = ResizeBicubic(ViewOf(source), std::stoi(row[3]), std::stoi(row[4]));
    CAPTURE(row);
    CHECK(image.width == std::stoi(row[3]));
    CHECK(image.height == std::stoi(row[4]));
    CHECK(Fnv64(image.data.data(), image.data.size()) == row[5]);
  }
}

TEST_CASE("a view with padded rows resizes like the same pixels without", "[media]") {
  const RgbImage source = SeededImage(7, 40, 30);
  constexpr int64_t kStride = 40 * 3 + 11;
  ByteVector padded(static_cast<size_t>(kStride * 30), 0xaa);
  for (int y = 0; y < 30; ++y) {
    std::copy_n(source.data.begin() + y * 120, 120, padded.begin() + y * kStride);
  }
  const RgbView view = {padded.data(), 40, 30, kStride};
  for (const auto& [width, height] : {std::pair{40, 30}, {20, 30}, {40, 77}, {13, 55}}) {
    CAPTURE(width, height);
    CHECK(ResizeBicubic(view, width, height).data ==
          ResizeBicubic(ViewOf(source), width, height).data);
  }
}

TEST_CASE("a flat image stays flat at every size", "[media]") {
  for (const uint8_t value : {uint8_t{0}, uint8_t{1}, uint8_t{127}, uint8_t{254}, uint8_t{255}}) {
    RgbImage source = SeededImage(1, 61, 43);
    source.data.assign(source.data.size(), value);
    for (const auto& [width, height] : {std::pair{1, 1}, {7, 90}, {200, 3}, {122, 86}}) {
      const RgbImage image = ResizeBicubic(ViewOf(source), width, height);
      CAPTURE(int{value}, width, height);
      CHECK(image.data == ByteVector(image.data.size(), value));
    }
  }
}

TEST_CASE("a resize that makes no sense gives an empty image", "[media]") {
  const RgbImage source = SeededImage(1, 4, 4);
  const RgbView good = ViewOf(source);
  for (const RgbView& view :
       {RgbView{}, RgbView{good.data, 0, 4, 12}, RgbView{good.data, 4, -1, 12},
        RgbView{good.data, 4, 4, 11}, RgbView{nullptr, 4, 4, 12}}) {
    CHECK(ResizeBicubic(view, 2, 2).data.empty());
  }
  CHECK(ResizeBicubic(good, 0, 2).data.empty());
  CHECK(ResizeBicubic(good, 2, -5).width == 0);
}

}  // namespace
}  // namespace rserve::media
