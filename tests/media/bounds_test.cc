// What hostile files cost, in counts and not in seconds: memory, basic blocks of our own parsers,
// bytes that zlib unpacks. The work of libjpeg and libwebp is bounded by what they are given: at
// most 32 scans (image_hostile_test.cc), one frame, and no more pixels than the header was allowed.

#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "src/media/bytes.h"
#include "src/media/gif_video.h"
#include "src/media/image.h"
#include "src/model/spec/image_plan.h"
#include "tests/core/rng.h"
#include "tests/media/media_test_util.h"
#include "tests/media/work_counter.h"
#include "tests/support/catch.h"

namespace rserve::media {
namespace {

using testing::Work;
using testing::WorkOf;

constexpr ImageLimits kLimits{1 << 16};

// Of reading a header: nothing grows with the pixels, and memory not with the file.
constexpr int64_t kHeaderBytes = 1 << 10;
constexpr int64_t kHeaderSteps = 1 << 10;
constexpr int64_t kHeaderStepsAByte = 6;
// Of decoding.
constexpr int64_t kDecodeBytes = 320 << 10;
constexpr int64_t kDecodeBytesAPixel = 24;
constexpr int64_t kDecodeSteps = 1 << 14;
constexpr int64_t kDecodeStepsAByte = 40;
constexpr int64_t kDecodeStepsAPixel = 40;

struct Most {
  double header_bytes = 0, header_steps = 0, bytes = 0, steps = 0;
};

// Checks one file against the bounds; `most` gathers what share of each is used.
void CheckCost(const ByteVector& file, Most* most) {
  const auto size = static_cast<int64_t>(file.size());
  absl::StatusOr<ImageHeader> header = absl::UnknownError("not read");
  const Work plan = WorkOf([&] { header = ReadImageHeader(file, kLimits); });
  const int64_t header_steps = kHeaderSteps + kHeaderStepsAByte * size;
  CHECK(plan.peak_bytes <= kHeaderBytes);
  CHECK(plan.steps <= header_steps);
  CHECK(plan.unpacked == 0);
  const int64_t pixels = header.ok() ? header->width * header->height : 0;
  absl::StatusOr<RgbImage> image = absl::UnknownError("not decoded");
  const Work decode = WorkOf([&] { image = DecodeImage(file, kLimits); });
  const int64_t bytes = (header.ok() ? kDecodeBytes : kHeaderBytes) + kDecodeBytesAPixel * pixels;
  const int64_t steps = kDecodeSteps + kDecodeStepsAByte * size + kDecodeStepsAPixel * pixels;
  CHECK(decode.peak_bytes <= bytes);
  CHECK(decode.steps <= steps);
  // Rows of up to eight bytes a pixel, each with its filter's byte; and what libpng looks ahead.
  const int64_t rows = header.ok() ? header->height + header->width : 0;
  CHECK(decode.unpacked <= 8 * pixels + 2 * rows + 1024);
  const auto share = [](int64_t part, int64_t whole) {
    return static_cast<double>(part) / static_cast<double>(whole);
  };
  most->header_bytes = std::max(most->header_bytes, share(plan.peak_bytes, kHeaderBytes));
  most->header_steps = std::max(most->header_steps, share(plan.steps, header_steps));
  most->bytes = std::max(most->bytes, share(decode.peak_bytes, bytes));
  most->steps = std::max(most->steps, share(decode.steps, steps));
}

struct CorpusFile {
  std::string name;
  ByteVector bytes;
};

std::vector<CorpusFile> ReadCorpus() {
  const ByteVector pack = ReadData("corpus.bin");
  std::vector<CorpusFile> files;
  for (const TableRow& row : ReadTable("corpus.txt")) {
    const auto begin = pack.begin() + std::stoll(row[1]);
    files.push_back({row[0], ByteVector(begin, begin + std::stoll(row[2]))});
  }
  for (const char* name : {"rgb420_progressive.jpg", "orientation_long.jpg", "exif_far.jpg",
                           "rgba16_adam7.png", "bad_metadata.png", "anim_mixed.gif"}) {
    files.push_back({name, ReadData(name)});
  }
  return files;
}

void PutBe32(ByteVector& bytes, size_t at, uint32_t value) {
  for (size_t i = 0; i < 4; ++i) bytes[at + i] = static_cast<uint8_t>(value >> (24 - 8 * i));
}

void AddPngChunk(ByteVector& file, const char* kind, const ByteVector& data) {
  const size_t at = file.size();
  file.resize(at + 12 + data.size());
  PutBe32(file, at, static_cast<uint32_t>(data.size()));
  std::memcpy(file.data() + at + 4, kind, 4);
  if (!data.empty()) std::memcpy(file.data() + at + 8, data.data(), data.size());
  const uLong sum = crc32(0, file.data() + at + 4, static_cast<uInt>(data.size()) + 4);
  PutBe32(file, at + 8 + data.size(), static_cast<uint32_t>(sum));
}

// `size` bytes of the same value, deflated: a thousandth of them.
ByteVector Deflated(size_t size) {
  const ByteVector repeats(size, 0);
  ByteVector packed(compressBound(repeats.size()));
  uLongf length = packed.size();
  REQUIRE(compress2(packed.data(), &length, repeats.data(), repeats.size(), 9) == Z_OK);
  packed.resize(length);
  return packed;
}

ByteVector PngHead() {
  const ByteVector file = ReadData("rgb8.png");
  return {file.begin(), file.begin() + 33};
}

TEST_CASE("what is counted counts", "[media][bounds]") {
  const ByteVector png = ReadData("rgb8.png");
  const Work work = WorkOf([&] { REQUIRE(DecodeImage(png, kLimits).ok()); });
  CHECK(work.peak_bytes > 37 * 23 * 3);
  CHECK(work.unpacked >= 23 * (37 * 3 + 1));
  CHECK(work.steps > 23);
}

TEST_CASE("planning a picture of 12 megapixels touches no memory of its pixels",
          "[media][bounds]") {
  ByteVector jpeg = ReadData("rgb420.jpg");
  size_t at = 0;
  while (jpeg[at] != 0xff || jpeg[at + 1] != 0xc0) ++at;
  PutBe32(jpeg, at + 5, uint32_t{3000} << 16 | 4000);
  jpeg.resize(4 << 20, 0x55);  // the weight of such a file
  const model::ImageProcessorConfig config;
  int64_t tokens = 0;
  const Work work = WorkOf([&] {
    const auto header = ReadImageHeader(jpeg, ImageLimits());
    if (header.ok()) tokens = model::PlanImage(header->height, header->width, config)->tokens;
  });
  CHECK(tokens > 1000);
  CHECK(work.peak_bytes <= 256);
  CHECK(work.steps <= 1000);
}

TEST_CASE("a file cut at every 16th byte costs no more than its bytes and pixels allow",
          "[media][bounds]") {
  Most most;
  for (const CorpusFile& file : ReadCorpus()) {
    for (size_t size = 0; size <= file.bytes.size(); size += 16) {
      CAPTURE(file.name, size);
      const auto end = file.bytes.begin() + static_cast<std::ptrdiff_t>(size);
      CheckCost({file.bytes.begin(), end}, &most);
    }
    CAPTURE(file.name);
    CheckCost(file.bytes, &most);
  }
  // The bounds are near what is used.
  CAPTURE(most.header_bytes, most.header_steps, most.bytes, most.steps);
  CHECK(most.bytes > 0.2);
  CHECK(most.steps > 0.1);
}

TEST_CASE("headers that claim 2^32 pixels cost what a header costs", "[media][bounds]") {
  using std::string_literals::operator""s;
  std::vector<ByteVector> files;
  for (const std::string& text :
       {"GIF89a\xff\xff\xff\x7f\0\0\0,\0\0\0\0\1\0\1\0\0\2\2\x44\1\0;"s,
        "BM\0\0\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0\xff\xff\0\0\xff\xff\0\0\1\0\x18\0"s +
            std::string(40, '\0'),
        "RIFF\x1a\0\0\0WEBPVP8L\x0d\0\0\0/\xff\xff\xff\x0f\0\0\0\0\0\0\0\0\0"s,
        "RIFF\x16\0\0\0WEBPVP8X\x0a\0\0\0\2\0\0\0\xff\xff\xff\xff\xff\xff\0\0"s}) {
    files.emplace_back(text.begin(), text.end());
  }
  ByteVector png = ReadData("rgb8.png");
  PutBe32(png, 16, 65535), PutBe32(png, 20, 65535);
  PutBe32(png, 29, static_cast<uint32_t>(crc32(0, png.data() + 12, 17)));
  files.push_back(png);
  for (const char* name : {"rgb420.jpg", "rgb420_progressive.jpg", "ycck_adobe.jpg"}) {
    ByteVector jpeg = ReadData(name);
    size_t at = 0;
    while (jpeg[at] != 0xff || (jpeg[at + 1] != 0xc0 && jpeg[at + 1] != 0xc2)) ++at;
    PutBe32(jpeg, at + 5, 65500u << 16 | 65500);
    files.push_back(jpeg);
  }
  Most most;
  for (const ByteVector& file : files) {
    CAPTURE(file.size(), int{file[0]});
    CHECK_FALSE(ReadImageHeader(file, kLimits).ok());
    CheckCost(file, &most);
  }
}

TEST_CASE("every format's signature before every other format's bytes costs what bytes cost",
          "[media][bounds]") {
  using std::string_literals::operator""s;
  Most most;
  for (const CorpusFile& file : ReadCorpus()) {
    for (const std::string& magic :
         {"\x89PNG\r\n\x1a\n"s, "\xff\xd8\xff"s, "GIF89a"s, "BM"s, "RIFF\0\0\0\0WEBP"s}) {
      if (file.bytes.size() < magic.size()) continue;
      ByteVector wrong = file.bytes;
      std::copy(magic.begin(), magic.end(), wrong.begin());
      CAPTURE(file.name, magic);
      CheckCost(wrong, &most);
    }
  }
}

TEST_CASE("repeats that unpack to a thousand times their size are not unpacked",
          "[media][bounds]") {
  const ByteVector bomb = Deflated(8 << 20);
  Most most;
  SECTION("behind the announced rows of a PNG") {
    ByteVector file = PngHead();
    AddPngChunk(file, "IDAT", bomb);
    AddPngChunk(file, "IEND", {});
    CheckCost(file, &most);
  }
  SECTION("in a PNG's metadata") {
    const ByteVector whole = ReadData("rgb8.png");
    ByteVector file = PngHead();
    for (const std::string& head :
         {std::string("zTXt"), std::string("iCCP"), std::string("iTXt")}) {
      ByteVector data = {'n', 'a', 'm', 'e', 0};
      if (head == "iTXt") data.push_back(1);
      data.push_back(0);
      if (head == "iTXt") data.insert(data.end(), {0, 0});
      data.insert(data.end(), bomb.begin(), bomb.end());
      AddPngChunk(file, head.c_str(), data);
    }
    file.insert(file.end(), whole.begin() + 33, whole.end());
    CHECK(DecodeImage(file, kLimits).ok());
    CheckCost(file, &most);
  }
  SECTION("in codes of a GIF that go on behind its pixels") {
    // A 1 x 1 picture, and a stream in which the newest code stands for ever longer runs.
    ByteVector file = ReadData("anim_one.gif");
    size_t at = file.size() - 1;
    while (at > 0 && file[at] != ',') --at;
    file.resize(at);
    for (const int byte : {0x2c, 0, 0, 0, 0, 1, 0, 1, 0, 0, 8}) {
      file.push_back(static_cast<uint8_t>(byte));
    }
    test::Rng rng(3);
    for (int block = 0; block < 400; ++block) {
      file.push_back(255);
      for (int i = 0; i < 255; ++i) file.push_back(static_cast<uint8_t>(rng.Next()));
    }
    file.insert(file.end(), {0, ';'});
    CheckCost(file, &most);
  }
  SECTION("as lines and steps of a run-length BMP that lead nowhere") {
    for (const int step : {0, 2}) {  // ends of lines; steps of no width
      ByteVector file = {'B', 'M', 0, 0, 0, 0, 0, 0, 0, 0, 0x36, 4, 0, 0, 40, 0, 0, 0};
      for (const int value : {64, 0, 0, 0, 64, 0, 0, 0, 1, 0, 8, 0, 1, 0, 0, 0}) {
        file.push_back(static_cast<uint8_t>(value));
      }
      file.resize(0x436, 0);
      for (int i = 0; i < 50000; ++i) {
        file.insert(file.end(), {0, static_cast<uint8_t>(step)});
        if (step == 2) file.insert(file.end(), {0, 0});
      }
      CheckCost(file, &most);
    }
  }
  SECTION("as ten thousand empty pieces") {
    ByteVector png = PngHead(), jpeg = {0xff, 0xd8}, webp = {'R', 'I', 'F', 'F'};
    for (int i = 0; i < 10000; ++i) {
      AddPngChunk(png, i % 2 == 0 ? "IDAT" : "tEXt", {});
      jpeg.insert(jpeg.end(), {0xff, 0xff, 0xfe, 0, 2});
    }
    webp.resize(12, 0);
    std::copy_n("WEBP", 4, webp.begin() + 8);
    for (int i = 0; i < 10000; ++i) webp.insert(webp.end(), {'E', 'X', 'I', 'F', 0, 0, 0, 0});
    const auto riff = static_cast<uint32_t>(webp.size() - 8);
    for (size_t i = 0; i < 4; ++i) webp[4 + i] = static_cast<uint8_t>(riff >> (8 * i));
    ByteVector gif = {'G', 'I', 'F', '8', '9', 'a', 1, 0, 1, 0, 0, 0, 0};
    for (int i = 0; i < 10000; ++i) gif.insert(gif.end(), {0x21, 0xfe, 0});
    for (const ByteVector& file : {png, jpeg, webp, gif}) {
      CAPTURE(int{file[0]});
      CheckCost(file, &most);
    }
  }
  SECTION("as one file, again and again") {
    for (const CorpusFile& file : ReadCorpus()) {
      ByteVector again;
      for (int i = 0; i < 20; ++i) again.insert(again.end(), file.bytes.begin(), file.bytes.end());
      CAPTURE(file.name);
      CheckCost(again, &most);
    }
  }
}

TEST_CASE("a GIF of very many frames is read once, whatever they hold", "[media][bounds]") {
  ByteVector gif = {'G', 'I', 'F', '8', '9', 'a', 4, 0, 4, 0, 0x80, 0, 0, 0, 0, 0, 255, 255, 255};
  for (int i = 0; i < 20000; ++i) {
    gif.insert(gif.end(), {',', 0, 0, 0, 0, 1, 0, 1, 0, 0, 2, 2, 0x44, 1, 0});
  }
  gif.push_back(';');
  absl::StatusOr<VideoInfo> info = absl::UnknownError("not read");
  const Work work = WorkOf([&] { info = ReadGifVideo(gif, kLimits); });
  REQUIRE(info.ok());
  CHECK(info->frames() == 20000);
  const auto size = static_cast<int64_t>(gif.size());
  CHECK(work.steps <= 20 * size);
  CHECK(work.peak_bytes <= 64 * 20000);
}

TEST_CASE("noise behind a format's signature costs what bytes cost", "[media][bounds]") {
  Most most;
  test::Rng rng(11);
  for (const char* name : {"rgb8.png", "rgb420.jpg", "anim_mixed.gif"}) {
    const ByteVector original = ReadData(name);
    for (int round = 0; round < 60; ++round) {
      ByteVector file = original;
      const int64_t kept = rng.In(2, std::min<int64_t>(120, static_cast<int64_t>(file.size())));
      for (auto i = static_cast<size_t>(kept); i < file.size(); ++i) {
        file[i] = static_cast<uint8_t>(rng.Next());
      }
      CAPTURE(name, round, kept);
      CheckCost(file, &most);
    }
  }
}

}  // namespace
}  // namespace rserve::media
