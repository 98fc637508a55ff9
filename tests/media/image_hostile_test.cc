// Files that lie, stop early or are noise: always a status, never a crash, a leak or a large
// allocation. Run under the address and undefined-behaviour sanitizers these tests are the proof.

#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "src/media/bytes.h"
#include "src/media/image.h"
#include "tests/media/media_test_util.h"
#include "tests/support/catch.h"

namespace rserve::media {
namespace {

// Small enough that a damaged size cannot make a sweep slow, large enough for the files.
constexpr ImageLimits kSmall{1 << 16};

const char* const kSweepFiles[] = {"rgb8.png",       "palette4_trns.png", "rgba16_adam7.png",
                                   "gray1.png",      "exif_after.png",    "rgb420.jpg",
                                   "ycck_adobe.jpg", "orientation_6.jpg", "rgb420_progressive.jpg"};

// Decodes a copy of exactly the given size, so that a sanitizer sees a read past its end.
absl::Status Decode(const uint8_t* data, size_t size) {
  const ByteVector exact(data, data + size);
  const absl::StatusOr<ImageHeader> header = ReadImageHeader(exact, kSmall);
  const absl::StatusOr<RgbImage> image = DecodeImage(exact, kSmall);
  if (!image.ok()) {
    CHECK((absl::IsInvalidArgument(image.status()) || absl::IsResourceExhausted(image.status())));
    CHECK_FALSE(image.status().message().empty());
  } else {
    REQUIRE(header.ok());
    CHECK(image->width == header->width);
    CHECK(image->height == header->height);
    CHECK(image->data.size() == static_cast<size_t>(header->width * header->height * 3));
  }
  return image.status();
}

void PutBe32(ByteVector& bytes, size_t at, uint32_t value) {
  for (size_t i = 0; i < 4; ++i) bytes[at + i] = static_cast<uint8_t>(value >> (24 - 8 * i));
}

uint32_t Crc32(const uint8_t* data, size_t size) {
  uint32_t crc = ~0u;
  for (size_t i = 0; i < size; ++i) {
    crc ^= data[i];
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (0xedb88320u & (0u - (crc & 1u)));
  }
  return ~crc;
}

ByteVector PngOfSize(uint32_t width, uint32_t height) {
  ByteVector file = ReadData("rgb8.png");
  PutBe32(file, 16, width);
  PutBe32(file, 20, height);
  PutBe32(file, 29, Crc32(file.data() + 12, 17));
  return file;
}

ByteVector JpegOfSize(uint32_t width, uint32_t height) {
  ByteVector file = ReadData("rgb420.jpg");
  size_t at = 0;
  while (file[at] != 0xff || file[at + 1] != 0xc0) ++at;
  PutBe32(file, at + 5, height << 16 | width);
  return file;
}

TEST_CASE("a file cut at any byte is refused", "[media][hostile]") {
  for (const char* name : kSweepFiles) {
    const ByteVector file = ReadData(name);
    for (size_t size = 0; size < file.size(); ++size) {
      CAPTURE(name, size);
      CHECK(absl::IsInvalidArgument(Decode(file.data(), size)));
    }
  }
}

TEST_CASE("a file with one damaged byte gives an image or a status", "[media][hostile]") {
  for (const char* name : kSweepFiles) {
    ByteVector file = ReadData(name);
    for (size_t at = 0; at < file.size(); ++at) {
      const uint8_t old = file[at];
      for (const uint8_t value : {uint8_t{0x00}, uint8_t{0xff}, static_cast<uint8_t>(old ^ 0x10),
                                  static_cast<uint8_t>(old + 1)}) {
        CAPTURE(name, at, int{value});
        file[at] = value;
        (void)Decode(file.data(), file.size());
      }
      file[at] = old;
    }
  }
}

TEST_CASE("a damaged byte in the pixel data of a PNG is noticed", "[media][hostile]") {
  ByteVector file = ReadData("rgb8.png");
  const size_t first = 8 + 25 + 8;  // signature, IHDR, the head of IDAT
  const size_t length = LoadBe32(file.data() + first - 8);
  for (size_t at = first; at < first + length + 4; ++at) {
    CAPTURE(at);
    file[at] ^= 0x04;
    CHECK(absl::IsInvalidArgument(Decode(file.data(), file.size())));
    file[at] ^= 0x04;
  }
}

TEST_CASE("a header that claims a huge size is refused before anything is allocated",
          "[media][hostile]") {
  struct Claim {
    uint32_t width;
    uint32_t height;
  };
  for (const Claim claim : {Claim{65535, 65535}, Claim{0x7fffffff, 0x7fffffff}, Claim{20000, 20000},
                            Claim{1, 0x7fffffff}}) {
    CAPTURE(claim.width, claim.height);
    const ByteVector png = PngOfSize(claim.width, claim.height);
    CHECK(absl::IsResourceExhausted(ReadImageHeader(png, ImageLimits{}).status()));
    CHECK(absl::IsResourceExhausted(DecodeImage(png, ImageLimits{}).status()));
  }
  for (const Claim claim : {Claim{65535, 65535}, Claim{20000, 20000}}) {
    CAPTURE(claim.width, claim.height);
    const ByteVector jpeg = JpegOfSize(claim.width, claim.height);
    CHECK(absl::IsResourceExhausted(ReadImageHeader(jpeg, ImageLimits{}).status()));
    CHECK(absl::IsResourceExhausted(DecodeImage(jpeg, ImageLimits{}).status()));
  }
}

TEST_CASE("a few bytes of GIF, BMP or WebP that claim a huge size are refused in the header",
          "[media][hostile]") {
  using std::string_literals::operator""s;
  const std::string gif = "GIF89a\xff\xff\xff\x7f\0\0\0,\0\0\0\0\1\0\1\0\0\2\2\x44\1\0;"s;
  std::string bmp = "BM\0\0\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0\xff\xff\0\0\xff\xff\0\0\1\0\x18\0"s;
  bmp.resize(64);
  const std::string webp = "RIFF\x1a\0\0\0WEBPVP8L\x0d\0\0\0/\xff\xff\xff\x0f\0\0\0\0\0\0\0\0\0"s;
  const std::string canvas =
      "RIFF\x16\0\0\0WEBPVP8X\x0a\0\0\0\2\0\0\0\xff\xff\xff\xff\xff\xff\0\0"s;
  for (const std::string& text : {gif, bmp, webp, canvas}) {
    const ByteVector file(text.begin(), text.end());
    CAPTURE(text.substr(0, 4));
    const absl::Status status = ReadImageHeader(file, ImageLimits{}).status();
    INFO(status.ToString());
    CHECK(absl::IsResourceExhausted(status));
    CHECK(DecodeImage(file, ImageLimits{}).status() == status);
    CHECK(std::string(status.message()).find("max_image_pixels") != std::string::npos);
  }
}

TEST_CASE("the signature of one format before the bytes of another gives a status",
          "[media][hostile]") {
  const std::string signatures[] = {"\x89PNG\r\n\x1a\n", "\xff\xd8\xff", "GIF89a", "BM",
                                    std::string("RIFF\0\0\0\0WEBP", 12)};
  for (const std::string& signature : signatures) {
    for (const char* name : {"rgb8.png", "rgb420.jpg", "gray1.png"}) {
      ByteVector file = ReadData(name);
      if (file.size() > signature.size() && file[0] == static_cast<uint8_t>(signature[0])) continue;
      std::copy(signature.begin(), signature.end(), file.begin());
      CAPTURE(signature, name);
      CHECK_FALSE(Decode(file.data(), file.size()).ok());
    }
  }
}

// A PNG that says 37 x 23 RGB, of so many zeros as pixel data, packed whole.
ByteVector PngOfZeros(size_t count, bool interlaced) {
  const ByteVector file = ReadData("rgb8.png");
  ByteVector png(file.begin(), file.begin() + 33);
  png[28] = interlaced ? 1 : 0;
  PutBe32(png, 29, Crc32(png.data() + 12, 17));
  const std::vector<uint8_t> zeros(count);
  std::vector<uint8_t> packed(compressBound(count));
  uLongf size = packed.size();
  REQUIRE(compress2(packed.data(), &size, zeros.data(), count, 9) == Z_OK);
  packed.resize(size);
  const auto chunk = [&png](const char* kind, const std::vector<uint8_t>& data) {
    const size_t at = png.size();
    png.resize(at + 12 + data.size());
    PutBe32(png, at, static_cast<uint32_t>(data.size()));
    std::memcpy(png.data() + at + 4, kind, 4);
    if (!data.empty()) std::memcpy(png.data() + at + 8, data.data(), data.size());
    PutBe32(png, at + 8 + data.size(), Crc32(png.data() + at + 4, data.size() + 4));
  };
  chunk("IDAT", packed);
  chunk("IEND", {});
  return png;
}

TEST_CASE("a PNG whose pixel data goes on for ever costs no more than its announced size",
          "[media][hostile]") {
  const ByteVector bomb = PngOfZeros(1 << 23, false);  // 8 KiB
  const absl::Status status = Decode(bomb.data(), bomb.size());
  INFO(status.ToString());
  // libpng stops at the announced rows, and takes or refuses what is left without unpacking it.
  CHECK((status.ok() || absl::IsInvalidArgument(status)));
}

TEST_CASE("a PNG whose pixel data ends well but too early is refused", "[media][hostile]") {
  constexpr size_t kAll = 23 * (1 + 3 * 37);
  for (const bool interlaced : {false, true}) {
    for (const size_t count : {size_t{1}, size_t{1000}, kAll - 1}) {
      CAPTURE(interlaced, count);
      const ByteVector png = PngOfZeros(count, interlaced);
      CHECK(absl::IsInvalidArgument(Decode(png.data(), png.size())));
    }
  }
  const ByteVector whole = PngOfZeros(kAll, false);
  CHECK(Decode(whole.data(), whole.size()).ok());
}

TEST_CASE("a size outside the format or the decoder is refused in the header", "[media][hostile]") {
  for (const ByteVector& file :
       {PngOfSize(0, 5), PngOfSize(5, 0), PngOfSize(0x80000000u, 1), PngOfSize(1'000'001, 1),
        JpegOfSize(0, 5), JpegOfSize(5, 0), JpegOfSize(65501, 1), JpegOfSize(1, 65535)}) {
    const absl::Status status = ReadImageHeader(file, ImageLimits{int64_t{1} << 40}).status();
    INFO(status.ToString());
    CHECK(absl::IsInvalidArgument(status));
    CHECK(DecodeImage(file, ImageLimits{int64_t{1} << 40}).status() == status);
  }
}

TEST_CASE("unsupported or foreign bytes are refused by name", "[media][hostile]") {
  CHECK(absl::IsInvalidArgument(ReadImageHeader({}, ImageLimits{}).status()));
  CHECK(absl::IsInvalidArgument(DecodeImage({}, ImageLimits{}).status()));
  const ByteVector gif = {'G', 'I', 'F', '8', '9', 'a', 1, 0, 1, 0};
  CHECK(absl::IsInvalidArgument(DecodeImage(gif, ImageLimits{}).status()));

  // A JPEG frame of another process, precision or number of components.
  struct Change {
    size_t offset;  // from the SOF marker's second byte
    uint8_t value;
    const char* word;
  };
  for (const Change change : {Change{0, 0xc3, "SOF3"}, Change{3, 12, "12 bits"},
                              Change{8, 2, "2 components"}, Change{8, 255, "255 components"}}) {
    CAPTURE(change.word);
    ByteVector file = ReadData("rgb420.jpg");
    size_t at = 0;
    while (file[at] != 0xff || file[at + 1] != 0xc0) ++at;
    file[at + 1 + change.offset] = change.value;
    const absl::Status status = ReadImageHeader(file, ImageLimits{}).status();
    CHECK(absl::IsInvalidArgument(status));
    CHECK(std::string(status.message()).find(change.word) != std::string::npos);
  }
}

TEST_CASE("a progressive file of very many scans is refused before one is decoded",
          "[media][hostile]") {
  // The first scan, again and again: each is a pass over all coefficients.
  ByteVector file = ReadData("gray_progressive.jpg");
  size_t begin = 0;
  while (file[begin] != 0xff || file[begin + 1] != 0xda) ++begin;
  size_t end = begin + 2;
  while (file[end] != 0xff || file[end + 1] == 0) ++end;
  const auto at = [&file](size_t i) { return file.begin() + static_cast<std::ptrdiff_t>(i); };
  const ByteVector scan(at(begin), at(end));
  for (int i = 0; i < 10; ++i) file.insert(at(end), scan.begin(), scan.end());
  CHECK(Decode(file.data(), file.size()).ok());
  for (const int more : {30, 99}) {
    for (int i = 0; i < more; ++i) file.insert(at(end), scan.begin(), scan.end());
    const absl::Status status = Decode(file.data(), file.size());
    INFO(status.ToString());
    CHECK(absl::IsInvalidArgument(status));
    CHECK(std::string(status.message()).find("more than 32 scans") != std::string::npos);
  }
}

TEST_CASE("noise behind a valid beginning gives a status", "[media][hostile]") {
  constexpr size_t kKept[] = {3, 8, 12, 33, 60, 200, 400};
  uint32_t state = 20240611;
  INFO("seed 20240611");
  for (const char* name : {"rgb8.png", "palette8.png", "rgb420.jpg", "rgb420_progressive.jpg"}) {
    const ByteVector original = ReadData(name);
    for (int round = 0; round < 40; ++round) {
      for (const size_t kept : kKept) {
        ByteVector file = original;
        for (size_t i = kept; i < file.size(); ++i) {
          state = state * 1664525u + 1013904223u;
          file[i] = static_cast<uint8_t>(state >> 24);
        }
        CAPTURE(name, round, kept);
        (void)Decode(file.data(), file.size());
      }
    }
  }
}

}  // namespace
}  // namespace rserve::media
