#include <cstddef>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "src/media/bytes.h"
#include "src/media/decoders.h"
#include "src/media/exif.h"
#include "src/media/image.h"

namespace rserve::media {
namespace {

using Bytes = absl::Span<const uint8_t>;

constexpr uint8_t kPngSignature[8] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};

// What each format is called, and the longest side that its decoder takes; refused here so that a
// planned image can be decoded. By ImageFormat. A std::string_view would be no argument of StrCat
// where Abseil carries its own string_view.
struct FormatInfo {
  const char* name;
  int64_t max_side;
};
constexpr FormatInfo kFormats[] = {
    {"PNG", 1'000'000}, {"JPEG", 65'500}, {"WebP", 16'384}, {"GIF", 65'535}, {"BMP", 1'000'000}};

const FormatInfo& InfoOf(ImageFormat format) { return kFormats[static_cast<size_t>(format)]; }

absl::Status Damaged(const char* format, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("damaged ", format, " header: ", what));
}

bool HasPrefix(Bytes bytes, const void* prefix, size_t size) {
  return bytes.size() >= size && std::memcmp(bytes.data(), prefix, size) == 0;
}

// CRC-32 of a PNG chunk, bit by bit: it only ever runs over the 17 bytes of IHDR.
uint32_t Crc32(Bytes bytes) {
  uint32_t crc = 0xffffffffu;
  for (const uint8_t byte : bytes) {
    crc ^= byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1u) != 0 ? 0xedb88320u : 0u);
  }
  return ~crc;
}

bool ValidPngDepth(uint8_t depth, uint8_t color_type) {
  switch (color_type) {
    case 0:
      return depth == 1 || depth == 2 || depth == 4 || depth == 8 || depth == 16;
    case 3:
      return depth == 1 || depth == 2 || depth == 4 || depth == 8;
    case 2:
    case 4:
    case 6:
      return depth == 8 || depth == 16;
    default:
      return false;
  }
}

absl::Status ReadPng(Bytes bytes, ImageHeader& header) {
  constexpr size_t kIhdr = 8;  // length, type, 13 bytes, CRC
  constexpr size_t kFirst = 8 + 25;
  if (bytes.size() < kFirst) {
    return Damaged("PNG", absl::StrCat("the file ends after ", bytes.size(), " bytes"));
  }
  const uint8_t* ihdr = bytes.data() + kIhdr;
  if (LoadBe32(ihdr) != 13 || std::memcmp(ihdr + 4, "IHDR", 4) != 0) {
    return Damaged("PNG", "the first chunk is not IHDR");
  }
  if (Crc32(bytes.subspan(kIhdr + 4, 17)) != LoadBe32(ihdr + 21)) {
    return Damaged("PNG", "IHDR has a wrong CRC");
  }
  header.format = ImageFormat::kPng;
  header.width = LoadBe32(ihdr + 8);
  header.height = LoadBe32(ihdr + 12);
  if (!ValidPngDepth(ihdr[16], ihdr[17])) {
    return Damaged(
        "PNG", absl::StrCat("no such bit depth and colour type: ", ihdr[16], " and ", ihdr[17]));
  }
  if (ihdr[18] != 0 || ihdr[19] != 0 || ihdr[20] > 1) {
    return Damaged("PNG", absl::StrCat("unknown compression, filter or interlace method: ",
                                       ihdr[18], ", ", ihdr[19], ", ", ihdr[20]));
  }
  // eXIf may stand on either side of the pixel data: hop over the chunks, eight bytes read in each.
  size_t at = kFirst;
  while (bytes.size() - at >= 12) {
    const uint8_t* chunk = bytes.data() + at;
    const size_t length = LoadBe32(chunk);
    if (length > bytes.size() - at - 12) break;
    if (std::memcmp(chunk + 4, "IEND", 4) == 0) break;
    if (std::memcmp(chunk + 4, "eXIf", 4) == 0) {
      header.orientation = ExifOrientation(bytes.subspan(at + 8, length));
    }
    at += 12 + length;
  }
  return absl::OkStatus();
}

// Start-of-frame markers that the decoder knows: baseline, extended and progressive, Huffman or
// arithmetic coding.
bool IsDecodableFrame(uint8_t marker) {
  return marker == 0xc0 || marker == 0xc1 || marker == 0xc2 || marker == 0xc9 || marker == 0xca;
}

bool IsFrame(uint8_t marker) {
  return marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc;
}

absl::Status ReadJpegFrame(uint8_t marker, Bytes segment, ImageHeader& header) {
  if (!IsDecodableFrame(marker)) {
    return absl::InvalidArgumentError(
        absl::StrCat("unsupported JPEG process SOF", marker - 0xc0,
                     "; baseline, extended sequential and progressive files can be decoded"));
  }
  if (header.width != 0) return Damaged("JPEG", "two SOF markers");
  if (segment.size() < 6) return Damaged("JPEG", "SOF is too short");
  const int precision = segment[0];
  const int components = segment[5];
  if (precision != 8) {
    return absl::InvalidArgumentError(
        absl::StrCat("unsupported JPEG precision of ", precision, " bits; 8 can be decoded"));
  }
  if (components != 1 && components != 3 && components != 4) {
    return absl::InvalidArgumentError(absl::StrCat("unsupported JPEG with ", components,
                                                   " components; 1, 3 or 4 can be decoded"));
  }
  header.height = LoadBe16(segment.data() + 1);
  header.width = LoadBe16(segment.data() + 3);
  if (header.width == 0 || header.height == 0) {
    return Damaged("JPEG", absl::StrCat("size ", header.width, "x", header.height));
  }
  return absl::OkStatus();
}

// The next marker at or after `at`: junk before it, fill bytes and stuffed zeros are passed over.
// Returns false at the end of the bytes; otherwise `at` is the byte after the marker.
bool NextMarker(Bytes bytes, size_t& at, uint8_t& marker) {
  while (at < bytes.size()) {
    const void* found = std::memchr(bytes.data() + at, 0xff, bytes.size() - at);
    if (found == nullptr) return false;
    at = static_cast<size_t>(static_cast<const uint8_t*>(found) - bytes.data());
    while (at < bytes.size() && bytes[at] == 0xff) ++at;
    if (at == bytes.size()) return false;
    marker = bytes[at++];
    if (marker != 0) return true;
  }
  return false;
}

absl::Status ReadJpeg(Bytes bytes, ImageHeader& header) {
  constexpr char kExif[6] = {'E', 'x', 'i', 'f', 0, 0};
  header.format = ImageFormat::kJpeg;
  bool exif_seen = false;
  size_t at = 2;
  uint8_t marker = 0;
  while (NextMarker(bytes, at, marker)) {
    if (marker == 0x01 || (marker >= 0xd0 && marker <= 0xd7)) continue;  // no segment
    if (marker == 0xd8) return Damaged("JPEG", "two SOI markers");
    if (marker == 0xd9 || marker == 0xda) break;  // EOI, SOS: nothing more to know
    if (bytes.size() - at < 2) break;
    const size_t length = LoadBe16(bytes.data() + at);
    if (length < 2) {
      return Damaged("JPEG", absl::StrCat("a segment of length ", length, " at byte ", at));
    }
    if (length > bytes.size() - at) break;
    const Bytes segment = bytes.subspan(at + 2, length - 2);
    if (IsFrame(marker)) {
      if (absl::Status status = ReadJpegFrame(marker, segment, header); !status.ok()) return status;
    } else if (marker == 0xe1 && !exif_seen && HasPrefix(segment, kExif, sizeof(kExif))) {
      exif_seen = true;
      header.orientation = ExifOrientation(segment.subspan(sizeof(kExif)));
    }
    at += length;
  }
  if (header.width == 0) {
    return Damaged("JPEG", absl::StrCat("no SOF marker in ", bytes.size(), " bytes"));
  }
  return absl::OkStatus();
}

absl::Status CheckSize(const ImageHeader& header, const ImageLimits& limits) {
  const char* format = InfoOf(header.format).name;
  constexpr int64_t kMaxInt31 = 0x7fffffff;
  if (header.width < 1 || header.height < 1 || header.width > kMaxInt31 ||
      header.height > kMaxInt31) {
    return Damaged(format, absl::StrCat("size ", header.width, "x", header.height));
  }
  const int64_t pixels = header.width * header.height;
  if (pixels > limits.max_pixels) {
    return absl::ResourceExhaustedError(
        absl::StrCat("an image of ", header.width, "x", header.height, " = ", pixels,
                     " pixels is over max_image_pixels = ", limits.max_pixels));
  }
  const int64_t max_side = InfoOf(header.format).max_side;
  if (header.width > max_side || header.height > max_side) {
    return absl::InvalidArgumentError(absl::StrCat("a ", format, " of ", header.width, "x",
                                                   header.height, " has a side over ", max_side,
                                                   ", the decoder's limit"));
  }
  return absl::OkStatus();
}

}  // namespace

std::string_view ImageFormatName(ImageFormat format) { return InfoOf(format).name; }

absl::StatusOr<ImageHeader> ReadImageHeader(Bytes bytes, const ImageLimits& limits) {
  ImageHeader header;
  absl::Status status;
  if (HasPrefix(bytes, kPngSignature, sizeof(kPngSignature))) {
    status = ReadPng(bytes, header);
  } else if (HasPrefix(bytes, "\xff\xd8\xff", 3)) {
    status = ReadJpeg(bytes, header);
  } else if (LooksLikeWebp(bytes)) {
    status = ReadWebpHeader(bytes, header);
  } else if (LooksLikeGif(bytes)) {
    status = ReadGifHeader(bytes, header);
  } else if (LooksLikeBmp(bytes)) {
    status = ReadBmpHeader(bytes, header);
  } else {
    status = absl::InvalidArgumentError(
        absl::StrCat("no PNG, JPEG, WebP, GIF or BMP file (", bytes.size(), " bytes)"));
  }
  if (status.ok()) status = CheckSize(header, limits);
  if (status.ok() && !ImageFormatSupported(header.format)) {
    status = absl::UnimplementedError(
        absl::StrCat("this build of rserve cannot decode ", InfoOf(header.format).name, " files"));
  }
  if (!status.ok()) return status;
  if (OrientationSwapsSides(header.orientation)) std::swap(header.width, header.height);
  return header;
}

}  // namespace rserve::media
