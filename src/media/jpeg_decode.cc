#include <algorithm>
#include <csetjmp>
#include <cstddef>
#include <cstdio>  // jpeglib.h needs FILE and size_t
#include <cstring>
#include <vector>

#include <jpeglib.h>

#include <jerror.h>  // after jpeglib.h: some codes depend on its configuration

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "src/media/bytes.h"
#include "src/media/decoders.h"
#include "src/media/oriented_writer.h"

namespace rserve::media {
namespace {

// A progressive file of a few kilobytes may ask for any number of passes over all coefficients,
// each of which costs tens of milliseconds in a picture of 12 megapixels. Encoders write 10 to 20.
constexpr int kMaxScans = 32;

// Scans that the file announces, counted up to one more than kMaxScans. A file whose markers are
// damaged is counted as far as they can be followed: the decoder counts again.
int CountScans(absl::Span<const uint8_t> bytes) {
  int scans = 0;
  size_t at = 2;
  while (at + 1 < bytes.size() && scans <= kMaxScans) {
    const void* found = std::memchr(bytes.data() + at, 0xff, bytes.size() - at - 1);
    if (found == nullptr) break;
    at = static_cast<size_t>(static_cast<const uint8_t*>(found) - bytes.data()) + 1;
    const uint8_t marker = bytes[at];
    if (marker == 0xd9) break;
    if (marker < 0xc0 || marker == 0xff || (marker >= 0xd0 && marker <= 0xd8)) continue;
    if (bytes.size() - at < 3) break;
    if (marker == 0xda) ++scans;
    at += 1 + LoadBe16(bytes.data() + at + 1);
  }
  return scans;
}

// libjpeg with a memory reader and errors as return values. See decoders.h on longjmp.
class JpegReader {
 public:
  explicit JpegReader(absl::Span<const uint8_t> bytes) : bytes_(bytes) {
    info_.err = jpeg_std_error(&errors_);
    errors_.error_exit = OnError;
    errors_.emit_message = OnMessage;
    errors_.output_message = [](j_common_ptr) {};
    info_.client_data = this;
  }
  // Safe after any failure, also of Start: an object never created has no memory manager.
  ~JpegReader() { jpeg_destroy_decompress(&info_); }
  JpegReader(const JpegReader&) = delete;
  JpegReader& operator=(const JpegReader&) = delete;

  JDIMENSION width() const { return info_.image_width; }
  JDIMENSION height() const { return info_.image_height; }
  int channels() const { return info_.out_color_components; }  // 3, or 4 for inverted CMYK

  absl::Status Failed() const {
    if (errors_.msg_code == JERR_OUT_OF_MEMORY) {
      return absl::ResourceExhaustedError(absl::StrCat("cannot decode JPEG: ", message_));
    }
    return absl::InvalidArgumentError(absl::StrCat("cannot decode JPEG: ", message_));
  }

  bool ReadHeader() {
    if (setjmp(jump_) != 0) return false;
    jpeg_create_decompress(&info_);
    source_.init_source = [](j_decompress_ptr) {};
    source_.term_source = [](j_decompress_ptr) {};
    source_.fill_input_buffer = OnInputEnd;
    source_.skip_input_data = OnSkip;
    source_.resync_to_restart = jpeg_resync_to_restart;
    source_.next_input_byte = bytes_.data();
    source_.bytes_in_buffer = bytes_.size();
    info_.src = &source_;
    progress_.progress_monitor = OnProgress;
    info_.progress = &progress_;
    jpeg_read_header(&info_, TRUE);
    // YCCK becomes CMYK in the library; the defaults for the rest (exact integer DCT, smooth chroma
    // upsampling) are the ones Pillow uses.
    info_.out_color_space = info_.num_components == 4 ? JCS_CMYK : JCS_RGB;
    return true;
  }

  bool Start() {
    if (setjmp(jump_) != 0) return false;
    jpeg_start_decompress(&info_);
    return true;
  }

  bool ReadRows(uint8_t* out, size_t stride, int32_t rows) {
    if (setjmp(jump_) != 0) return false;
    for (int32_t y = 0; y < rows; ++y) {
      JSAMPROW row = out + static_cast<size_t>(y) * stride;
      jpeg_read_scanlines(&info_, &row, 1);
    }
    return true;
  }

  // Reads to EOI: a file that stops before it is incomplete.
  bool Finish() {
    if (setjmp(jump_) != 0) return false;
    jpeg_finish_decompress(&info_);
    return true;
  }

 private:
  static JpegReader* Self(j_common_ptr info) { return static_cast<JpegReader*>(info->client_data); }

  [[noreturn]] static void OnError(j_common_ptr info) {
    JpegReader* self = Self(info);
    info->err->format_message(info, self->message_);
    std::longjmp(self->jump_, 1);
  }

  // The library goes on after these warnings with pixels it made up; a decoder whose output is an
  // answer's basis must not. Other warnings (unknown versions, padding) leave the pixels right.
  static void OnMessage(j_common_ptr info, int level) {
    if (level >= 0) return;
    switch (info->err->msg_code) {
      case JWRN_HIT_MARKER:
      case JWRN_JPEG_EOF:
      case JWRN_MUST_RESYNC:
      case JWRN_HUFF_BAD_CODE:
      case JWRN_ARITH_BAD_CODE:
        OnError(info);
      default:
        return;
    }
  }

  [[noreturn]] static void Fail(j_common_ptr info, const char* message) {
    JpegReader* self = Self(info);
    std::strncpy(self->message_, message, sizeof(self->message_) - 1);
    std::longjmp(self->jump_, 1);
  }

  static boolean OnInputEnd(j_decompress_ptr info) {
    Fail(reinterpret_cast<j_common_ptr>(info), "the file ends early");
  }

  static void OnSkip(j_decompress_ptr info, long count) {
    if (count <= 0) return;
    jpeg_source_mgr* source = info->src;
    if (static_cast<size_t>(count) > source->bytes_in_buffer) OnInputEnd(info);
    source->next_input_byte += count;
    source->bytes_in_buffer -= static_cast<size_t>(count);
  }

  static void OnProgress(j_common_ptr info) {
    if (info->is_decompressor == FALSE) return;
    if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number > kMaxScans) {
      Fail(info, "more than 32 scans");
    }
  }

  absl::Span<const uint8_t> bytes_;
  jpeg_decompress_struct info_ = {};
  jpeg_error_mgr errors_ = {};
  jpeg_source_mgr source_ = {};
  jpeg_progress_mgr progress_ = {};
  jmp_buf jump_;
  char message_[JMSG_LENGTH_MAX] = {};
};

// Inverted CMYK (as Adobe stores it, and as Pillow takes every four-component file) to RGB, in
// place. With the file's bytes c' = 255 - c and k' = 255 - k: k' - round(c * k' / 255).
void InvertedCmykToRgb(uint8_t* pixels, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    const uint8_t* in = pixels + i * 4;
    uint8_t* out = pixels + i * 3;
    const int32_t light = in[3];
    const int32_t ink[3] = {255 - in[0], 255 - in[1], 255 - in[2]};
    for (int c = 0; c < 3; ++c) {
      const int32_t product = ink[c] * light + 128;
      out[c] = static_cast<uint8_t>(light - (((product >> 8) + product) >> 8));
    }
  }
}

}  // namespace

absl::StatusOr<RgbImage> DecodeJpeg(absl::Span<const uint8_t> bytes, const ImageHeader& header) {
  const RawSize size = StoredSize(header);
  JpegReader reader(bytes);
  if (!reader.ReadHeader()) return reader.Failed();
  if (reader.width() != static_cast<JDIMENSION>(size.width) ||
      reader.height() != static_cast<JDIMENSION>(size.height)) {
    return absl::InvalidArgumentError("cannot decode JPEG: two sizes in one file");
  }
  if (CountScans(bytes) > kMaxScans) {
    return absl::InvalidArgumentError(absl::StrCat("cannot decode JPEG: it has more than ",
                                                   kMaxScans, " scans, more are not decoded"));
  }
  if (!reader.Start()) return reader.Failed();
  const int channels = reader.channels();
  if (channels != 3 && channels != 4) {
    return absl::InternalError(absl::StrCat("JPEG rows of ", channels, " channels"));
  }

  RgbImage image;
  OrientedWriter writer(image, size.width, size.height, header.orientation);
  const size_t stride = static_cast<size_t>(size.width) * static_cast<size_t>(channels);
  std::vector<uint8_t> band(stride * kBandRows);
  for (int32_t y = 0; y < size.height; y += kBandRows) {
    const int32_t count = std::min(kBandRows, size.height - y);
    if (!reader.ReadRows(band.data(), stride, count)) return reader.Failed();
    if (channels == 4) {
      InvertedCmykToRgb(band.data(), static_cast<size_t>(count) * static_cast<size_t>(size.width));
    }
    writer.Write(y, count, band.data());
  }
  if (!reader.Finish()) return reader.Failed();
  return image;
}

}  // namespace rserve::media
