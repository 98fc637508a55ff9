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

// libpng with a memory reader and errors as return values. See decoders.h on longjmp.
class PngReader {
 public:
  explicit PngReader(absl::Span<const uint8_t> bytes) : next_(bytes.data()), left_(bytes.size()) {
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, OnError, OnWarning);
    if (png_ != nullptr) info_ = png_create_info_struct(png_);
  }
  ~PngReader() { png_destroy_read_struct(&png_, &info_, nullptr); }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;

  bool created() const { return info_ != nullptr; }
  const char* message() const { return message_; }
  png_uint_32 width() const { return png_get_image_width(png_, info_); }
  png_uint_32 height() const { return png_get_image_height(png_, info_); }
  int channels() const { return png_get_channels(png_, info_); }  // 3 or 4 after Start
  int passes() const { return passes_; }

  // Reads up to the pixel data and asks for 8-bit RGB or RGBA rows.
  bool Start() {
    if (setjmp(png_jmpbuf(png_)) != 0) return false;
    png_set_read_fn(png_, this, OnRead);
    // Of the ancillary chunks only tRNS matters to the pixels; the others are not even parsed.
    png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
    png_read_info(png_, info_);
    const int color_type = png_get_color_type(png_, info_);
    if (color_type == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(png_);
    if ((color_type & PNG_COLOR_MASK_COLOR) == 0) {
      if (png_get_bit_depth(png_, info_) < 8) png_set_expand_gray_1_2_4_to_8(png_);
      png_set_gray_to_rgb(png_);
    }
    if (png_get_valid(png_, info_, PNG_INFO_tRNS) != 0) png_set_tRNS_to_alpha(png_);
    png_set_strip_16(png_);
    passes_ = png_set_interlace_handling(png_);
    png_read_update_info(png_, info_);
    return true;
  }

  // Reads the next `rows` rows of one pass into consecutive rows of `stride` bytes.
  bool ReadRows(uint8_t* out, size_t stride, int32_t rows) {
    if (setjmp(png_jmpbuf(png_)) != 0) return false;
    for (int32_t y = 0; y < rows; ++y) {
      png_read_row(png_, out + static_cast<size_t>(y) * stride, nullptr);
    }
    return true;
  }

  // Reads to IEND: a file that stops before it is incomplete.
  bool Finish() {
    if (setjmp(png_jmpbuf(png_)) != 0) return false;
    png_read_end(png_, nullptr);
    return true;
  }

 private:
  [[noreturn]] static void OnError(png_structp png, png_const_charp message) {
    auto* self = static_cast<PngReader*>(png_get_error_ptr(png));
    std::strncpy(self->message_, message, sizeof(self->message_) - 1);
    png_longjmp(png, 1);
  }
  // libpng warns of what it repairs or passes over; missing pixel data is an error there already.
  static void OnWarning(png_structp, png_const_charp) {}
  static void OnRead(png_structp png, png_bytep out, size_t size) {
    auto* self = static_cast<PngReader*>(png_get_io_ptr(png));
    if (size > self->left_) png_error(png, "the file ends early");
    std::memcpy(out, self->next_, size);
    self->next_ += size;
    self->left_ -= size;
  }

  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  const uint8_t* next_;
  size_t left_;
  int passes_ = 1;
  char message_[160] = {};
};

absl::Status Failed(const PngReader& reader) {
  return absl::InvalidArgumentError(absl::StrCat("cannot decode PNG: ", reader.message()));
}

}  // namespace

absl::StatusOr<RgbImage> DecodePng(absl::Span<const uint8_t> bytes, const ImageHeader& header) {
  const RawSize size = StoredSize(header);
  PngReader reader(bytes);
  if (!reader.created()) return absl::ResourceExhaustedError("cannot create a PNG decoder");
  if (!reader.Start()) return Failed(reader);
  if (reader.width() != static_cast<png_uint_32>(size.width) ||
      reader.height() != static_cast<png_uint_32>(size.height)) {
    return absl::InvalidArgumentError("cannot decode PNG: two sizes in one file");
  }
  const int channels = reader.channels();
  if (channels != 3 && channels != 4) {
    return absl::InternalError(absl::StrCat("PNG rows of ", channels, " channels"));
  }

  RgbImage image;
  OrientedWriter writer(image, size.width, size.height, header.orientation);
  const size_t stride = static_cast<size_t>(size.width) * static_cast<size_t>(channels);
  // An interlaced file fills the whole picture several times over; others come band by band.
  const bool interlaced = reader.passes() > 1;
  const int32_t buffered = interlaced ? size.height : std::min(size.height, kBandRows);
  std::vector<uint8_t> rows(stride * static_cast<size_t>(buffered));
  if (interlaced) {
    for (int pass = 0; pass < reader.passes(); ++pass) {
      if (!reader.ReadRows(rows.data(), stride, size.height)) return Failed(reader);
    }
  }
  for (int32_t y = 0; y < size.height; y += buffered) {
    const int32_t count = std::min(buffered, size.height - y);
    if (!interlaced && !reader.ReadRows(rows.data(), stride, count)) return Failed(reader);
    if (channels == 4) {
      CompositeOnWhite(rows.data(), static_cast<size_t>(count) * static_cast<size_t>(size.width),
                       rows.data());
    }
    writer.Write(y, count, rows.data());
  }
  if (!reader.Finish()) return Failed(reader);
  return image;
}

}  // namespace rserve::media
