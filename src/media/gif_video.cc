#include "src/media/gif_video.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/media/decoders.h"

namespace rserve::media {

namespace {

// A frame takes a byte for each of its pixels while it is drawn, wherever it lies.
absl::Status CheckFrame(const GifFrame& frame, int64_t number, int64_t width, int64_t height) {
  if (int64_t{frame.width} * frame.height <= width * height) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("damaged GIF: frame ", number, " of ", frame.width,
                                                 "x", frame.height, " pixels on a screen of ",
                                                 width, "x", height));
}

}  // namespace

absl::StatusOr<VideoInfo> ReadGifVideo(absl::Span<const uint8_t> bytes,
                                          const ImageLimits& limits) {
  if (!LooksLikeGif(bytes)) {
    return absl::InvalidArgumentError(absl::StrCat("no GIF file (", bytes.size(), " bytes)"));
  }
  absl::StatusOr<ImageHeader> header = ReadImageHeader(bytes, limits);
  if (!header.ok()) return header.status();
  absl::StatusOr<GifFrameReader> reader = GifFrameReader::Open(bytes);
  if (!reader.ok()) return reader.status();
  VideoInfo info;
  info.width = static_cast<int32_t>(header->width);
  info.height = static_cast<int32_t>(header->height);
  const int64_t pixels = header->width * header->height;
  const int64_t most_pixels = limits.max_pixels > INT64_MAX / kMaxGifPixelsFactor
                                  ? INT64_MAX
                                  : limits.max_pixels * kMaxGifPixelsFactor;
  int64_t hundredths = 0;
  GifFrame frame;
  while (true) {
    absl::StatusOr<bool> more = reader->Next(&frame);
    if (!more.ok()) return more.status();
    if (!*more) break;
    if (info.frames() == kMaxGifFrames || pixels > most_pixels / (info.frames() + 1)) {
      return absl::ResourceExhaustedError(
          absl::StrCat("a GIF of ", info.frames() + 1, " or more frames of ", info.width, "x",
                       info.height, " pixels, at most ", kMaxGifFrames, " frames and ", most_pixels,
                       " pixels in all are taken (", kMaxGifPixelsFactor, " * max_image_pixels)"));
    }
    absl::Status status = CheckFrame(frame, info.frames(), info.width, info.height);
    if (!status.ok()) return status;
    info.begin_s.push_back(static_cast<double>(hundredths) / 100.0);
    hundredths += frame.delay_cs < 2 ? 10 : frame.delay_cs;
  }
  info.duration_s = static_cast<double>(hundredths) / 100.0;
  return info;
}

GifPlayer::GifPlayer(absl::Span<const uint8_t> bytes, const VideoInfo& info)
    : bytes_(bytes), width_(info.width), height_(info.height) {}

template <typename Row>
void GifPlayer::ForRows(const GifFrame& frame, Row row) {
  const int32_t columns = std::min(frame.width, width_ - frame.x);
  if (columns <= 0) return;
  for (int32_t y = 0; y < frame.height && frame.y + y < height_; ++y) {
    row(screen_.data() + int64_t{frame.y + y} * width_ + frame.x, int64_t{y} * frame.width,
        columns);
  }
}

absl::Status GifPlayer::Restart() {
  absl::StatusOr<GifFrameReader> reader = GifFrameReader::Open(bytes_);
  if (!reader.ok()) return reader.status();
  reader_ = std::make_unique<GifFrameReader>(*reader);
  shown_ = -1;
  frame_ = GifFrame();
  return absl::OkStatus();
}

void GifPlayer::Dispose() {
  if (shown_ < 0 || frame_.disposal == GifDisposal::kKeep) return;
  if (frame_.disposal == GifDisposal::kBackground) {
    ForRows(frame_, [this](Pixel* pixels, int64_t, int32_t columns) {
      std::fill_n(pixels, columns, cleared_);
    });
    return;
  }
  const Pixel* saved = saved_.data();
  ForRows(frame_, [&saved](Pixel* pixels, int64_t, int32_t columns) {
    std::copy_n(saved, columns, pixels);
    saved += columns;
  });
}

absl::Status GifPlayer::Draw() {
  Dispose();
  absl::StatusOr<bool> more = reader_->Next(&frame_);
  if (!more.ok()) return more.status();
  if (!*more) {
    return absl::InvalidArgumentError(absl::StrCat("the GIF ends before frame ", shown_ + 1));
  }
  absl::Status status = CheckFrame(frame_, shown_ + 1, width_, height_);
  if (!status.ok()) return status;
  const GifPalette palette = GifColours(frame_);
  const auto colour = [&palette](int index, bool opaque) {
    const auto& rgb = palette[static_cast<size_t>(index)];
    return Pixel{rgb[0], rgb[1], rgb[2], opaque};
  };
  if (shown_ < 0) {
    // Around the first frame: transparent, or its palette's first colour.
    alpha_ = frame_.transparent >= 0;
    screen_.assign(static_cast<size_t>(int64_t{width_} * height_), colour(0, !alpha_));
  }
  if (frame_.disposal == GifDisposal::kBackground) {
    const bool key = frame_.transparent >= 0;
    const int index = key ? frame_.transparent : reader_->background();
    const bool known = static_cast<size_t>(index) * 3 + 3 <= frame_.palette.size();
    cleared_ = colour(known || frame_.palette.empty() ? index : 0, !(key && alpha_));
  } else if (frame_.disposal == GifDisposal::kPrevious) {
    saved_.clear();
    ForRows(frame_, [this](Pixel* pixels, int64_t, int32_t columns) {
      saved_.insert(saved_.end(), pixels, pixels + columns);
    });
  }
  indices_.resize(static_cast<size_t>(int64_t{frame_.width} * frame_.height));
  status = DecodeGifIndices(bytes_, frame_, absl::MakeSpan(indices_));
  if (!status.ok()) return status;
  const bool first = shown_ < 0;
  ForRows(frame_, [&](Pixel* pixels, int64_t begin, int32_t columns) {
    for (int32_t x = 0; x < columns; ++x) {
      const int index = indices_[static_cast<size_t>(begin + x)];
      if (index != frame_.transparent) {
        pixels[x] = colour(index, true);
      } else if (first) {
        pixels[x] = colour(index, false);
      }
    }
  });
  ++shown_;
  return absl::OkStatus();
}

absl::StatusOr<RgbImage> GifPlayer::Show(int64_t number) {
  if (number < 0) return absl::InvalidArgumentError(absl::StrCat("GIF frame ", number));
  if (reader_ == nullptr || number < shown_) {
    if (absl::Status status = Restart(); !status.ok()) return status;
  }
  while (shown_ < number) {
    absl::Status status = Draw();
    if (status.ok()) continue;
    reader_.reset();  // half a frame may be drawn
    return status;
  }
  RgbImage image;
  image.width = width_;
  image.height = height_;
  image.data.reserve(screen_.size() * 3);
  for (const Pixel& pixel : screen_) {
    const uint8_t rgb[3] = {pixel.r, pixel.g, pixel.b};
    for (const uint8_t value : rgb) image.data.push_back(pixel.opaque ? value : 255);
  }
  return image;
}

}  // namespace rserve::media
