#include "src/media/gif_frames.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "src/media/bytes.h"

namespace rserve::media {
namespace {

using Bytes = absl::Span<const uint8_t>;

constexpr size_t kScreenBytes = 13;
constexpr int kMaxCodeBits = 12;
constexpr size_t kMaxCodes = size_t{1} << kMaxCodeBits;

absl::Status Damaged(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("damaged GIF: ", what));
}

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
  PixelSink(const GifFrame& frame, absl::Span<uint8_t> indices)
      : frame_(frame), indices_(indices) {}

  bool full() const { return pass_ > 3 || y_ >= frame_.height; }

  void Put(uint8_t index) {
    indices_[static_cast<size_t>(int64_t{y_} * frame_.width + x_)] = index;
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
  const GifFrame& frame_;
  const absl::Span<uint8_t> indices_;
  int32_t x_ = 0;
  int32_t y_ = 0;
  int pass_ = 0;
};

// One pass over the codes. Each code stands for a string of pixels: another code's string and one
// pixel more. Strings are written back to front into a stack.
absl::Status DecodeLzw(Bytes bytes, const GifFrame& frame, PixelSink& sink) {
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

}  // namespace

absl::StatusOr<GifFrameReader> GifFrameReader::Open(Bytes bytes) {
  if (bytes.size() < kScreenBytes) {
    return Damaged(absl::StrCat("the file ends after ", bytes.size(), " bytes"));
  }
  GifFrameReader reader(bytes);
  reader.screen_width_ = static_cast<int32_t>(LoadLe16(bytes.data() + 6));
  reader.screen_height_ = static_cast<int32_t>(LoadLe16(bytes.data() + 8));
  reader.background_ = bytes[11];
  reader.at_ = kScreenBytes;
  if (!ReadPalette(bytes, bytes[10], reader.at_, reader.palette_)) {
    return Damaged("the file ends in the palette");
  }
  return reader;
}

absl::StatusOr<bool> GifFrameReader::Next(GifFrame* frame) {
  *frame = GifFrame();
  frame->palette = palette_;
  if (in_pixels_) {  // a file that ends in them has no further frame
    const size_t next = at_ < bytes_.size() ? SkipBlocks(bytes_, at_ + 1) : 0;
    at_ = next == 0 ? bytes_.size() : next;
    in_pixels_ = false;
  }
  while (at_ < bytes_.size()) {
    const uint8_t kind = bytes_[at_++];
    if (kind == 0x3b) break;
    if (kind == '!') {  // an extension; only the graphic control matters
      if (bytes_.size() - at_ < 2) break;
      const bool control = bytes_[at_] == 0xf9;
      const size_t length = bytes_[at_ + 1];
      if (control && length >= 4 && bytes_.size() - at_ >= 6) {
        const uint8_t flags = bytes_[at_ + 2];
        if ((flags & 1) != 0) frame->transparent = bytes_[at_ + 5];
        frame->delay_cs = static_cast<int32_t>(LoadLe16(bytes_.data() + at_ + 3));
        if ((flags >> 2 & 7) == 1) disposal_ = GifDisposal::kKeep;
        if ((flags >> 2 & 7) == 2) disposal_ = GifDisposal::kBackground;
        if ((flags >> 2 & 7) >= 3) disposal_ = GifDisposal::kPrevious;
      }
      at_ = SkipBlocks(bytes_, at_ + 1);
      if (at_ == 0) break;
      continue;
    }
    if (kind != ',') continue;  // padding between blocks
    if (bytes_.size() - at_ < 9) break;
    const uint8_t* image = bytes_.data() + at_;
    frame->x = static_cast<int32_t>(LoadLe16(image));
    frame->y = static_cast<int32_t>(LoadLe16(image + 2));
    frame->width = static_cast<int32_t>(LoadLe16(image + 4));
    frame->height = static_cast<int32_t>(LoadLe16(image + 6));
    frame->interlaced = (image[8] & 0x40) != 0;
    frame->disposal = disposal_;
    at_ += 9;
    if (!ReadPalette(bytes_, image[8], at_, frame->palette)) break;
    if (frame->width == 0 || frame->height == 0) {
      return Damaged(absl::StrCat("a frame of ", frame->width, "x", frame->height, " pixels"));
    }
    frame->data = at_;
    in_pixels_ = true;
    return true;
  }
  at_ = bytes_.size();
  return false;
}

absl::Status DecodeGifIndices(Bytes bytes, const GifFrame& frame, absl::Span<uint8_t> indices) {
  PixelSink sink(frame, indices);
  return DecodeLzw(bytes, frame, sink);
}

GifPalette GifColours(const GifFrame& frame) {
  GifPalette palette;
  for (size_t i = 0; i < palette.size(); ++i) palette[i].fill(static_cast<uint8_t>(i));
  for (size_t i = 0; i * 3 < frame.palette.size(); ++i) {
    std::memcpy(palette[i].data(), frame.palette.data() + i * 3, 3);
  }
  return palette;
}

}  // namespace rserve::media
