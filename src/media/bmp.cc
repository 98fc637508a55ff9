// BMP: uncompressed, bit fields and run lengths, of OS/2 and Windows headers; what Pillow reads.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "src/media/bytes.h"
#include "src/media/composite.h"
#include "src/media/decoders.h"

namespace rserve::media {
namespace {

using Bytes = absl::Span<const uint8_t>;

constexpr size_t kFileHeader = 14;
constexpr uint32_t kRaw = 0, kRle8 = 1, kRle4 = 2, kBitFields = 3;

absl::Status Damaged(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("damaged BMP: ", what));
}

absl::Status Unsupported(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("unsupported BMP ", what));
}

// Where the samples of a pixel lie in its little-endian word: red, green, blue, alpha masks.
using Masks = std::array<uint32_t, 4>;

struct BmpInfo {
  int64_t width = 0, height = 0;
  bool top_down = false;
  uint32_t bits = 0;  // a pixel
  uint32_t compression = kRaw;
  Masks masks = {};
  bool alpha = false;
  size_t palette = 0;      // where it begins
  size_t colors = 0;       // entries of it that are there
  size_t color_bytes = 4;  // of an entry: blue, green, red, and nothing
  size_t pixels = 0;       // where they begin
};

// Bit field layouts that are read (Pillow's list); whether the fourth mask is a used alpha.
struct Layout {
  uint32_t bits;
  Masks masks;
};
constexpr Layout kLayouts[] = {
    {32, {0xff0000, 0xff00, 0xff, 0}},
    {32, {0xff000000, 0xff0000, 0xff00, 0}},
    {32, {0xff000000, 0xff00, 0xff, 0}},
    {32, {0xff000000, 0xff0000, 0xff00, 0xff}},
    {32, {0xff, 0xff00, 0xff0000, 0xff000000}},
    {32, {0xff0000, 0xff00, 0xff, 0xff000000}},
    {32, {0xff000000, 0xff00, 0xff, 0xff0000}},
    {24, {0xff0000, 0xff00, 0xff, 0}},
    {16, {0xf800, 0x7e0, 0x1f, 0}},
    {16, {0x7c00, 0x3e0, 0x1f, 0}},
};

// Masks of the file into `info`, or a refusal.
absl::Status ReadMasks(Bytes bytes, size_t header_size, BmpInfo& info) {
  const size_t count = header_size >= 56 ? 4 : 3;
  if (bytes.size() < kFileHeader + 40 + count * 4) return Damaged("the file ends in the masks");
  Masks masks = {};
  for (size_t i = 0; i < count; ++i) {
    masks[i] = LoadLe32(bytes.data() + kFileHeader + 40 + i * 4);
  }
  if (info.bits != 32) masks[3] = 0;
  // All masks 0 in a header that has four: blue, green, red, alpha.
  if (info.bits == 32 && count == 4 && masks == Masks{}) {
    masks = {0xff0000, 0xff00, 0xff, 0xff000000};
  }
  const bool known = std::any_of(
      std::begin(kLayouts), std::end(kLayouts),
      [&](const Layout& layout) { return layout.bits == info.bits && layout.masks == masks; });
  if (!known) return Unsupported(absl::StrCat("bit fields of ", info.bits, " bits"));
  info.masks = masks;
  info.alpha = masks[3] != 0;
  return absl::OkStatus();
}

absl::Status ReadLayout(Bytes bytes, size_t header_size, BmpInfo& info) {
  constexpr uint32_t kDepths[] = {1, 4, 8, 16, 24, 32};
  if (std::find(std::begin(kDepths), std::end(kDepths), info.bits) == std::end(kDepths)) {
    return Unsupported(absl::StrCat("depth of ", info.bits, " bits a pixel"));
  }
  switch (info.compression) {
    case kRaw:
      info.masks = info.bits == 16 ? Masks{0x7c00, 0x3e0, 0x1f, 0} : Masks{0xff0000, 0xff00, 0xff};
      return absl::OkStatus();
    case kRle8:
    case kRle4:
      if (info.bits != (info.compression == kRle8 ? 8u : 4u) || info.top_down) {
        return Unsupported(absl::StrCat("run lengths with ", info.bits, " bits a pixel",
                                        info.top_down ? ", top row first" : ""));
      }
      return absl::OkStatus();
    case kBitFields:
      if (info.bits < 16) return Unsupported("bit fields with a palette");
      return ReadMasks(bytes, header_size, info);
    default:
      return Unsupported(absl::StrCat("compression ", info.compression));
  }
}

absl::StatusOr<BmpInfo> ReadInfo(Bytes bytes) {
  if (bytes.size() < kFileHeader + 12) {
    return Damaged(absl::StrCat("the file ends after ", bytes.size(), " bytes"));
  }
  const uint8_t* dib = bytes.data() + kFileHeader;
  const size_t header_size = LoadLe32(dib);
  constexpr size_t kSizes[] = {12, 40, 52, 56, 64, 108, 124};
  if (std::find(std::begin(kSizes), std::end(kSizes), header_size) == std::end(kSizes)) {
    return Unsupported(absl::StrCat("header of ", header_size, " bytes"));
  }
  if (bytes.size() - kFileHeader < header_size) return Damaged("the file ends in the header");
  BmpInfo info;
  uint64_t colors = 0;
  if (header_size == 12) {
    info.width = LoadLe16(dib + 4);
    info.height = LoadLe16(dib + 6);
    info.bits = LoadLe16(dib + 10);
    info.color_bytes = 3;
  } else {
    info.width = static_cast<int32_t>(LoadLe32(dib + 4));
    const auto height = static_cast<int32_t>(LoadLe32(dib + 8));
    info.top_down = height < 0;
    info.height = info.top_down ? -int64_t{height} : height;
    info.bits = LoadLe16(dib + 14);
    info.compression = LoadLe32(dib + 16);
    colors = LoadLe32(dib + 32);
  }
  if (absl::Status status = ReadLayout(bytes, header_size, info); !status.ok()) return status;
  if (info.width < 1 || info.height < 1) {
    return Damaged(absl::StrCat("size ", info.width, "x", info.height));
  }
  info.pixels = LoadLe32(bytes.data() + 10);
  if (info.bits <= 8) {
    if (colors == 0) colors = uint64_t{1} << info.bits;
    info.palette = kFileHeader + header_size;
    const uint64_t present = (bytes.size() - info.palette) / info.color_bytes;
    if (colors > present) return Damaged("the file ends in the palette");
    info.colors = static_cast<size_t>(std::min<uint64_t>(colors, uint64_t{1} << info.bits));
    // Some writers count the headers alone.
    if (info.pixels == info.palette) info.pixels += static_cast<size_t>(colors) * info.color_bytes;
  }
  if (info.pixels < kFileHeader + header_size || info.pixels > bytes.size()) {
    return Damaged(absl::StrCat("its pixels begin at byte ", info.pixels));
  }
  return info;
}

using Palette = std::array<std::array<uint8_t, 3>, 256>;

Palette ReadPalette(Bytes bytes, const BmpInfo& info) {
  Palette palette;
  for (size_t i = 0; i < palette.size(); ++i) palette[i].fill(static_cast<uint8_t>(i));
  for (size_t i = 0; i < info.colors; ++i) {
    const uint8_t* bgr = bytes.data() + info.palette + i * info.color_bytes;
    palette[i] = {bgr[2], bgr[1], bgr[0]};
  }
  return palette;
}

// A sample of `mask` in `word`, widened to 8 bits as Pillow does: v * 255 / max, cut.
uint8_t Sample(uint32_t word, uint32_t mask) {
  const int shift = __builtin_ctz(mask);
  const uint32_t max = mask >> shift;
  const uint32_t value = (word & mask) >> shift;
  return static_cast<uint8_t>(max == 255 ? value : value * 255 / max);
}

void WordsToRgb(const uint8_t* row, const BmpInfo& info, uint8_t* rgb) {
  const size_t step = info.bits / 8;
  uint8_t rgba[4] = {0, 0, 0, 255};
  for (int64_t x = 0; x < info.width; ++x, row += step, rgb += 3) {
    uint32_t word = 0;
    for (size_t i = 0; i < step; ++i) word |= uint32_t{row[i]} << (8 * i);
    for (size_t c = 0; c < 3; ++c) rgba[c] = Sample(word, info.masks[c]);
    if (info.alpha) {
      rgba[3] = Sample(word, info.masks[3]);
      CompositeOnWhite(rgba, 1, rgb);
    } else {
      std::memcpy(rgb, rgba, 3);
    }
  }
}

void IndicesToRgb(const uint8_t* row, const BmpInfo& info, const Palette& palette, uint8_t* rgb) {
  const uint32_t mask = (1u << info.bits) - 1;
  for (int64_t x = 0; x < info.width; ++x, rgb += 3) {
    const int64_t bit = x * info.bits;
    const uint32_t shift = 8 - info.bits - static_cast<uint32_t>(bit % 8);
    std::memcpy(rgb, palette[(row[bit / 8] >> shift) & mask].data(), 3);
  }
}

// Run lengths into palette indices, bottom row first. Pixels that the runs pass over are index 0;
// a file that ends before its end mark, and before all pixels, is damaged.
absl::Status ReadRuns(Bytes bytes, const BmpInfo& info, std::vector<uint8_t>& indices) {
  const bool four_bits = info.compression == kRle4;
  size_t at = info.pixels;
  int64_t x = 0;
  int64_t y = 0;
  const auto put = [&](uint8_t index) {  // what does not fit the row is dropped
    if (x < info.width) indices[static_cast<size_t>(y * info.width + x)] = index;
    ++x;
  };
  while (y < info.height && !(y == info.height - 1 && x >= info.width)) {
    if (bytes.size() - at < 2) return Damaged("its pixels end early");
    const int count = bytes[at];
    const uint8_t value = bytes[at + 1];
    at += 2;
    if (count > 0) {
      for (int i = 0; i < count; ++i) {
        put(!four_bits ? value : static_cast<uint8_t>(i % 2 == 0 ? value >> 4 : value & 15));
      }
    } else if (value == 0) {
      x = 0;
      ++y;
    } else if (value == 1) {
      break;
    } else if (value == 2) {
      if (bytes.size() - at < 2) return Damaged("its pixels end early");
      x += bytes[at];
      y += bytes[at + 1];
      at += 2;
    } else {
      const size_t size = four_bits ? (size_t{value} + 1) / 2 : value;
      if (bytes.size() - at < size) return Damaged("its pixels end early");
      for (size_t i = 0; i < value; ++i) {
        put(!four_bits ? bytes[at + i]
                       : static_cast<uint8_t>(i % 2 == 0 ? bytes[at + i / 2] >> 4
                                                         : bytes[at + i / 2] & 15));
      }
      at = std::min(at + size + size % 2, bytes.size());
    }
  }
  return absl::OkStatus();
}

}  // namespace

bool LooksLikeBmp(Bytes bytes) { return bytes.size() >= 2 && bytes[0] == 'B' && bytes[1] == 'M'; }

absl::Status ReadBmpHeader(Bytes bytes, ImageHeader& header) {
  absl::StatusOr<BmpInfo> info = ReadInfo(bytes);
  if (!info.ok()) return info.status();
  header.format = ImageFormat::kBmp;
  header.width = info->width;
  header.height = info->height;
  return absl::OkStatus();
}

absl::StatusOr<RgbImage> DecodeBmp(Bytes bytes, const ImageHeader& header) {
  absl::StatusOr<BmpInfo> info = ReadInfo(bytes);
  if (!info.ok()) return info.status();
  RgbImage image;
  image.width = static_cast<int32_t>(header.width);
  image.height = static_cast<int32_t>(header.height);
  const Palette palette = ReadPalette(bytes, *info);
  const auto row_of = [&](int64_t y) {
    const int64_t to = info->top_down ? y : info->height - 1 - y;
    return image.data.data() + to * info->width * 3;
  };
  if (info->compression == kRle8 || info->compression == kRle4) {
    std::vector<uint8_t> indices(static_cast<size_t>(info->width * info->height));
    if (absl::Status status = ReadRuns(bytes, *info, indices); !status.ok()) return status;
    image.data.resize(indices.size() * 3);
    for (int64_t y = 0; y < info->height; ++y) {
      for (int64_t x = 0; x < info->width; ++x) {
        std::memcpy(row_of(y) + x * 3,
                    palette[indices[static_cast<size_t>(y * info->width + x)]].data(), 3);
      }
    }
    return image;
  }
  // Rows are padded to four bytes; the last one need not be.
  const int64_t used = (info->width * info->bits + 7) / 8;
  const int64_t stride = (used + 3) / 4 * 4;
  const int64_t needed = stride * (info->height - 1) + used;
  if (static_cast<int64_t>(bytes.size() - info->pixels) < needed) {
    return Damaged("its pixels end early");
  }
  image.data.resize(static_cast<size_t>(info->width * info->height) * 3);
  for (int64_t y = 0; y < info->height; ++y) {
    const uint8_t* row = bytes.data() + info->pixels + y * stride;
    if (info->bits <= 8) {
      IndicesToRgb(row, *info, palette, row_of(y));
    } else {
      WordsToRgb(row, *info, row_of(y));
    }
  }
  return image;
}

}  // namespace rserve::media
