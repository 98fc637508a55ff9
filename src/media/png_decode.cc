#include <png.h>

#include <algorithm>
#include <csetjmp>
#include <cstddef>
#include <cstring>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "src/media/composite.h"
#include "src/media/decoders.h"
#include "src/media/oriented_writer.h"

namespace rserve::media {
namespace {

// libpng fed with the file, errors as return values (decoders.h has the longjmp rule). Fed, it
// stops unpacking with the last row; asked row by row it would unpack all that stands behind it as
// well, a thousand times its size.
class PngReader {
 public:
  // `bands` has room for kBandRows rows of four bytes a pixel, or for all of an interlaced file.
  PngReader(const RawSize& size, std::vector<uint8_t>& bands, OrientedWriter& writer)
      : size_(size), bands_(bands), writer_(writer) {
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, OnError, OnWarning);
    if (png_ != nullptr) info_ = png_create_info_struct(png_);
  }
  ~PngReader() { png_destroy_read_struct(&png_, &info_, nullptr); }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;

  bool created() const { return info_ != nullptr; }
  const char* message() const { return message_; }

  // Reads to IEND: a file that stops before it is incomplete.
  bool Read(absl::Span<const uint8_t> bytes) {
    if (setjmp(png_jmpbuf(png_)) != 0) return false;
    png_set_progressive_read_fn(png_, this, OnInfo, OnRow, OnEnd);
    // Of the ancillary chunks only tRNS matters to the pixels; the others are not even parsed.
    png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
    png_process_data(png_, info_, const_cast<png_bytep>(bytes.data()), bytes.size());
    if (!ended_) png_error(png_, "the file ends early");
    return true;
  }

 private:
  static PngReader* Self(png_structp png) {
    return static_cast<PngReader*>(png_get_progressive_ptr(png));
  }

  // Before the pixel data: asks for 8-bit RGB or RGBA rows.
  static void OnInfo(png_structp png, png_infop info) {
    PngReader* self = Self(png);
    if (png_get_image_width(png, info) != static_cast<png_uint_32>(self->size_.width) ||
        png_get_image_height(png, info) != static_cast<png_uint_32>(self->size_.height)) {
      png_error(png, "two sizes in one file");
    }
    const int color_type = png_get_color_type(png, info);
    if (color_type == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(png);
    if ((color_type & PNG_COLOR_MASK_COLOR) == 0) {
      if (png_get_bit_depth(png, info) < 8) png_set_expand_gray_1_2_4_to_8(png);
      png_set_gray_to_rgb(png);
    }
    if (png_get_valid(png, info, PNG_INFO_tRNS) != 0) png_set_tRNS_to_alpha(png);
    png_set_strip_16(png);
    self->interlaced_ = png_set_interlace_handling(png) > 1;
    png_read_update_info(png, info);
    self->channels_ = png_get_channels(png, info);
    if (self->channels_ != 3 && self->channels_ != 4) png_error(png, "rows of no known layout");
    const size_t rows = self->interlaced_ ? static_cast<size_t>(self->size_.height) : kBandRows;
    if (self->bands_.size() / rows < self->stride()) png_error(png, "two layouts in one file");
  }

  // `row` is null where a pass of an interlaced file has nothing for it.
  static void OnRow(png_structp png, png_bytep row, png_uint_32 number, int) {
    PngReader* self = Self(png);
    if (row == nullptr || number >= static_cast<png_uint_32>(self->size_.height)) return;
    const auto y = static_cast<int32_t>(number);
    const int32_t in_band = self->interlaced_ ? y : y % kBandRows;
    uint8_t* const out = self->bands_.data() + static_cast<size_t>(in_band) * self->stride();
    png_progressive_combine_row(png, out, row);
    const bool last = in_band + 1 == kBandRows || y + 1 == self->size_.height;
    if (!self->interlaced_ && last) self->Write(y - in_band, in_band + 1, self->bands_.data());
  }

  static void OnEnd(png_structp png, png_infop) {
    PngReader* self = Self(png);
    // A stream that ends well may still hold too few rows; libpng does not mind when it is fed.
    constexpr int kPasses = 7;
    const bool whole = self->interlaced_ ? png_get_current_pass_number(png) >= kPasses
                                         : png_get_current_row_number(png) >=
                                               static_cast<png_uint_32>(self->size_.height);
    if (!whole) png_error(png, "not enough image data");
    self->ended_ = true;
    if (!self->interlaced_) return;
    for (int32_t y = 0; y < self->size_.height; y += kBandRows) {
      self->Write(y, std::min(kBandRows, self->size_.height - y),
                  self->bands_.data() + static_cast<size_t>(y) * self->stride());
    }
  }

  void Write(int32_t y, int32_t count, uint8_t* rows) {
    if (channels_ == 4) {
      CompositeOnWhite(rows, static_cast<size_t>(count) * static_cast<size_t>(size_.width), rows);
    }
    writer_.Write(y, count, rows);
  }

  size_t stride() const {
    return static_cast<size_t>(size_.width) * static_cast<size_t>(channels_);
  }

  [[noreturn]] static void OnError(png_structp png, png_const_charp message) {
    auto* self = static_cast<PngReader*>(png_get_error_ptr(png));
    std::strncpy(self->message_, message, sizeof(self->message_) - 1);
    png_longjmp(png, 1);
  }
  // libpng warns of what it repairs or passes over. It passes over pixel data that cannot be
  // unpacked, which must not be: the rows behind it would be made up.
  static void OnWarning(png_structp png, png_const_charp message) {
    if (std::strstr(message, "ADLER32") != nullptr) OnError(png, message);
  }

  const RawSize size_;
  std::vector<uint8_t>& bands_;
  OrientedWriter& writer_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  int channels_ = 0;  // 3 or 4
  bool interlaced_ = false;
  bool ended_ = false;
  char message_[160] = {};
};

bool Interlaced(absl::Span<const uint8_t> bytes) {
  constexpr size_t kInterlaceMethod = 28;  // IHDR's last byte
  return bytes.size() > kInterlaceMethod && bytes[kInterlaceMethod] != 0;
}

}  // namespace

absl::StatusOr<RgbImage> DecodePng(absl::Span<const uint8_t> bytes, const ImageHeader& header) {
  const RawSize size = StoredSize(header);
  RgbImage image;
  OrientedWriter writer(image, size.width, size.height, header.orientation);
  // An interlaced file fills the whole picture several times over; others come band by band.
  const int32_t rows = Interlaced(bytes) ? size.height : kBandRows;
  std::vector<uint8_t> bands(static_cast<size_t>(size.width) * 4 * static_cast<size_t>(rows));
  PngReader reader(size, bands, writer);
  if (!reader.created()) return absl::ResourceExhaustedError("cannot create a PNG decoder");
  if (!reader.Read(bytes)) {
    return absl::InvalidArgumentError(absl::StrCat("cannot decode PNG: ", reader.message()));
  }
  return image;
}

}  // namespace rserve::media
