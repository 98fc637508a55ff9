// GIF: the first frame on the logical screen. The decoder is ours: the format is an LZW code and a
// palette, and so every byte is checked in one place, memory is the result and 16 KiB, and no build
// lacks it.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "src/media/bytes.h"
#include "src/media/decoders.h"

namespace rserve::media {
namespace {

using Bytes = absl::Span<const uint8_t>;

constexpr size_t kScreenBytes = 13;
constexpr int kMaxCodeBits = 12;
constexpr size_t kMaxCodes = size_t{1} << kMaxCodeBits;

absl::Status Damaged(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("damaged GIF: ", what));
}

using Palette = std::array<std::array<uint8_t, 3>, 256>;

// What stands before the first frame's pixels.
struct Frame {
  int32_t screen_width = 0;  // at least the frame's right edge, as Pillow extends it
  int32_t screen_height = 0;
  int32_t x = 0, y = 0, width = 0, height = 0;
  bool interlaced = false;
  int transparent = -1;  // palette index
  Bytes palette;         // RGB triples; empty: gray
  size_t data = 0;       // where the code size and the sub-blocks begin
};

// The byte after the sub-blocks that begin at `at`, or 0 when the file ends in them.
size_t SkipBlocks(Bytes bytes, size_t at) {
  while (at < bytes.size()) {
    const size_t length = bytes[at];
    if (length == 0) return at + 1;
    at += 1 + length;
  }
  return 0;
}

// A palette of 2^(bits + 1) colours at `at`, if the flags announce one. False: the file ends in it.
bool ReadPalette(Bytes bytes, uint8_t flags, size_t& at, Bytes& palette) {
  if ((flags & 0x80) == 0) return true;
  const size_t size = size_t{3} << ((flags & 7) + 1);
  if (bytes.size() - at < size) return false;
  palette = bytes.subspan(at, size);
  at += size;
  return true;
}

absl::StatusOr<Frame> FindFirstFrame(Bytes bytes) {
  if (bytes.size() < kScreenBytes) {
    return Damaged(absl::StrCat("the file ends after ", bytes.size(), " bytes"));
  }
  Frame frame;
  frame.screen_width = static_cast<int32_t>(LoadLe16(bytes.data() + 6));
  frame.screen_height = static_cast<int32_t>(LoadLe16(bytes.data() + 8));
  size_t at = kScreenBytes;
  if (!ReadPalette(bytes, bytes[10], at, frame.palette)) {
    return Damaged("the file ends in the palette");
  }
  while (at < bytes.size()) {
    const uint8_t kind = bytes[at++];
    if (kind == 0x3b) break;
    if (kind == '!') {  // an extension; only the graphic control's transparency matters
      if (bytes.size() - at < 2) break;
      const bool control = bytes[at] == 0xf9;
      const size_t length = bytes[at + 1];
      if (control && length >= 4 && bytes.size() - at >= 6 && (bytes[at + 2] & 1) != 0) {
        frame.transparent = bytes[at + 5];
      }
      at = SkipBlocks(bytes, at + 1);
      if (at == 0) break;
      continue;
    }
    if (kind != ',') continue;  // padding between blocks
    if (bytes.size() - at < 9) break;
    const uint8_t* image = bytes.data() + at;
    frame.x = static_cast<int32_t>(LoadLe16(image));
    frame.y = static_cast<int32_t>(LoadLe16(image + 2));
    frame.width = static_cast<int32_t>(LoadLe16(image + 4));
    frame.height = static_cast<int32_t>(LoadLe16(image + 6));
    frame.interlaced = (image[8] & 0x40) != 0;
    at += 9;
    if (!ReadPalette(bytes, image[8], at, frame.palette)) break;
    if (frame.width == 0 || frame.height == 0) {
      return Damaged(absl::StrCat("a frame of ", frame.width, "x", frame.height, " pixels"));
    }
    frame.screen_width = std::max(frame.screen_width, frame.x + frame.width);
    frame.screen_height = std::max(frame.screen_height, frame.y + frame.height);
    frame.data = at;
    return frame;
  }
  return Damaged("no frame in it");
}

// The codes of a frame: bits from the lowest up, cut into sub-blocks of up to 255 bytes.
class CodeReader {
 public:
  CodeReader(Bytes bytes, size_t at) : bytes_(bytes), at_(at) {}

  // The next `count` bits, or -1 at the end of the blocks or the file.
  int Read(int count) {
    while (held_ < count) {
      if (left_ == 0) {
        if (at_ >= bytes_.size() || bytes_[at_] == 0) return -1;
        left_ = bytes_[at_++];
      }
      if (at_ >= bytes_.size()) return -1;
      bits_ |= uint32_t{bytes_[at_++]} << held_;
      held_ += 8;
      --left_;
    }
    const int code = static_cast<int>(bits_ & ((1u << count) - 1));
    bits_ >>= count;
    held_ -= count;
    return code;
  }

 private:
  Bytes bytes_;
  size_t at_;
  size_t left_ = 0;  // bytes of the sub-block
  uint32_t bits_ = 0;
  int held_ = 0;
};

// Where the frame's pixels go: row by row, or in the four passes of an interlaced frame.
class PixelSink {
 public:
  PixelSink(const Frame& frame, const Palette& palette, RgbImage& image)
      : frame_(frame), palette_(palette), image_(image) {}

  bool full() const { return pass_ > 3 || y_ >= frame_.height; }

  void Put(uint8_t index) {
    const int64_t pixel = int64_t{frame_.y + y_} * image_.width + frame_.x + x_;
    std::memcpy(image_.data.data() + pixel * 3, palette_[index].data(), 3);
    if (++x_ < frame_.width) return;
    x_ = 0;
    if (!frame_.interlaced) {
      ++y_;
      return;
    }
    constexpr int32_t kStep[4] = {8, 8, 4, 2};
    constexpr int32_t kStart[4] = {0, 4, 2, 1};
    y_ += kStep[pass_];
    while (y_ >= frame_.height && ++pass_ <= 3) y_ = kStart[pass_];
  }

 private:
  const Frame& frame_;
  const Palette& palette_;
  RgbImage& image_;
  int32_t x_ = 0;
  int32_t y_ = 0;
  int pass_ = 0;
};

// One pass over the codes. Each code stands for a string of pixels: another code's string and one
// pixel more. Strings are written back to front into a stack.
absl::Status DecodeLzw(Bytes bytes, const Frame& frame, PixelSink& sink) {
  if (frame.data >= bytes.size()) return Damaged("the file ends before the pixels");
  const int min_bits = bytes[frame.data];
  if (min_bits < 1 || min_bits > 8) {
    return Damaged(absl::StrCat("a code size of ", min_bits, ", want 1 to 8"));
  }
  struct Entry {
    uint16_t prefix;
    uint8_t last;
  };
  std::array<Entry, kMaxCodes> table;
  std::array<uint8_t, kMaxCodes> stack;
  const int clear = 1 << min_bits;
  const int end = clear + 1;
  CodeReader codes(bytes, frame.data + 1);
  int bits = min_bits + 1;
  int next = end + 1;  // the code that the next string gets
  int previous = -1;   // the code before this one; -1 after a clear
  uint8_t first = 0;   // the first pixel of the previous string
  while (!sink.full()) {
    const int code = codes.Read(bits);
    if (code < 0 || code == end) return Damaged("its pixels end early");
    if (code == clear) {
      bits = min_bits + 1;
      next = end + 1;
      previous = -1;
      continue;
    }
    if (code > next || (code == next && previous < 0) || (previous < 0 && code > end)) {
      return Damaged(absl::StrCat("code ", code, " where ", next, " are known"));
    }
    size_t depth = 0;
    int walk = code;
    if (code == next) {  // the string that is being made: the previous one and its own first pixel
      stack[depth++] = first;
      walk = previous;
    }
    while (walk > end) {
      stack[depth++] = table[static_cast<size_t>(walk)].last;
      walk = table[static_cast<size_t>(walk)].prefix;
    }
    first = static_cast<uint8_t>(walk);
    stack[depth++] = first;
    while (depth > 0 && !sink.full()) sink.Put(stack[--depth]);
    if (previous >= 0 && next < static_cast<int>(kMaxCodes)) {
      table[static_cast<size_t>(next)] = {static_cast<uint16_t>(previous), first};
      ++next;
      if (next == 1 << bits && bits < kMaxCodeBits) ++bits;
    }
    previous = code;
  }
  return absl::OkStatus();
}

Palette MakePalette(const Frame& frame) {
  Palette palette;
  for (size_t i = 0; i < palette.size(); ++i) {
    palette[i].fill(static_cast<uint8_t>(i));  // what Pillow shows beyond, or without, a palette
  }
  for (size_t i = 0; i * 3 < frame.palette.size(); ++i) {
    std::memcpy(palette[i].data(), frame.palette.data() + i * 3, 3);
  }
  if (frame.transparent >= 0) palette[static_cast<size_t>(frame.transparent)].fill(255);
  return palette;
}

}  // namespace

bool LooksLikeGif(Bytes bytes) {
  return bytes.size() >= 6 && (std::memcmp(bytes.data(), "GIF87a", 6) == 0 ||
                               std::memcmp(bytes.data(), "GIF89a", 6) == 0);
}

absl::Status ReadGifHeader(Bytes bytes, ImageHeader& header) {
  absl::StatusOr<Frame> frame = FindFirstFrame(bytes);
  if (!frame.ok()) return frame.status();
  header.format = ImageFormat::kGif;
  header.width = frame->screen_width;
  header.height = frame->screen_height;
  return absl::OkStatus();
}

absl::StatusOr<RgbImage> DecodeGif(Bytes bytes, const ImageHeader& header) {
  absl::StatusOr<Frame> frame = FindFirstFrame(bytes);
  if (!frame.ok()) return frame.status();
  const Palette palette = MakePalette(*frame);
  RgbImage image;
  image.width = static_cast<int32_t>(header.width);
  image.height = static_cast<int32_t>(header.height);
  // Around a frame that is smaller than the screen: transparent, or the palette's first colour.
  const std::array<uint8_t, 3>& around =
      palette[frame->transparent >= 0 ? static_cast<size_t>(frame->transparent) : 0];
  image.data.resize(static_cast<size_t>(header.width * header.height) * 3);
  for (size_t i = 0; i < image.data.size(); i += 3) {
    std::memcpy(image.data.data() + i, around.data(), 3);
  }
  PixelSink sink(*frame, palette, image);
  if (absl::Status status = DecodeLzw(bytes, *frame, sink); !status.ok()) return status;
  return image;
}

}  // namespace rserve::media
