#include "src/runtime/model/unit_source.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/media/image.h"
#include "src/media/image_processor.h"

namespace rserve::runtime {

namespace {

// Borrows or copies the part's bytes.
void TakeBytes(absl::Span<const uint8_t> bytes, bool borrow, UnitSource* source) {
  source->bytes = bytes;
  if (borrow) return;
  source->owned = std::make_shared<const std::vector<uint8_t>>(bytes.begin(), bytes.end());
  source->bytes = *source->owned;
}

UnitSource PixelSource(PixelLayout layout, int32_t width, int32_t height,
                       int64_t row_stride_bytes) {
  UnitSource source;
  source.kind = SourceKind::kPixels;
  source.layout = static_cast<media::RawLayout>(layout);
  source.width = width;
  source.height = height;
  source.row_stride_bytes = row_stride_bytes != 0
                                ? row_stride_bytes
                                : int64_t{width} * media::RawPixelBytes(source.layout);
  return source;
}

std::vector<UnitSource> VideoSources(const VideoFrames& video, int64_t patches, int32_t patch) {
  UnitSource whole = PixelSource(video.layout, video.width, video.height, video.row_stride_bytes);
  whole.frame_stride_bytes = video.frame_stride_bytes != 0 ? video.frame_stride_bytes
                                                           : whole.row_stride_bytes * video.height;
  TakeBytes(video.pixels, video.borrow, &whole);
  std::vector<UnitSource> sources;
  for (int64_t i = 0; i < patches; ++i) {
    UnitSource& unit = sources.emplace_back(whole);
    const int64_t first = i * patch;
    unit.frames = static_cast<int32_t>(std::min<int64_t>(patch, video.frames - first));
    unit.bytes = whole.bytes.subspan(static_cast<size_t>(first * whole.frame_stride_bytes));
  }
  return sources;
}

std::vector<UnitSource> VideoFileSources(const VideoFile& file, const SampledVideo& video,
                                         int32_t patch) {
  UnitSource whole;
  whole.kind = SourceKind::kVideoFile;
  whole.width = video.info.width;
  whole.height = video.info.height;
  TakeBytes(file.bytes, file.borrow, &whole);
  whole.player = std::make_shared<VideoPlayer>(whole.bytes, video.info);
  whole.content = std::make_shared<SharedDigest>();
  std::vector<UnitSource> sources;
  const auto step = static_cast<size_t>(patch);
  for (size_t first = 0; first < video.frames.size(); first += step) {
    UnitSource& unit = sources.emplace_back(whole);
    const size_t count = std::min(step, video.frames.size() - first);
    unit.frames = static_cast<int32_t>(count);
    const auto begin = video.frames.begin() + static_cast<std::ptrdiff_t>(first);
    unit.frame_numbers.assign(begin, begin + static_cast<std::ptrdiff_t>(count));
  }
  return sources;
}

std::vector<UnitSource> RowSources(const EmbeddingInput& input, const model::PlannedItem& item) {
  UnitSource whole;
  whole.kind = SourceKind::kRows;
  whole.type = input.type;
  TakeBytes(input.data, input.borrow, &whole);
  const size_t unit_bytes = whole.bytes.size() / static_cast<size_t>(item.plan.grid.t);
  std::vector<UnitSource> sources;
  for (int32_t i = 0; i < item.plan.grid.t; ++i) {
    UnitSource& unit = sources.emplace_back(whole);
    unit.bytes = whole.bytes.subspan(static_cast<size_t>(i) * unit_bytes, unit_bytes);
  }
  return sources;
}

float FromHalf(uint16_t half) {
  const uint32_t sign = uint32_t{half} >> 15 << 31;
  const uint32_t exponent = half >> 10 & 31;
  const uint32_t fraction = half & 1023;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | fraction << 13);
  if (exponent == 0) {
    const float value = std::ldexp(static_cast<float>(fraction), -24);
    return sign != 0 ? -value : value;
  }
  return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
}

}  // namespace

int64_t EmbeddingTypeBytes(EmbeddingType type) {
  switch (type) {
    case EmbeddingType::kFloat32:
      return 4;
    case EmbeddingType::kBfloat16:
    case EmbeddingType::kFloat16:
      return 2;
  }
  return 0;
}

std::vector<UnitSource> MakeSources(const RequestPart& part, const model::PlannedItem& item,
                                    int32_t temporal_patch_size, const SampledVideo* video) {
  if (const auto* frames = std::get_if<VideoFrames>(&part)) {
    return VideoSources(*frames, item.plan.grid.t, temporal_patch_size);
  }
  if (const auto* file = std::get_if<VideoFile>(&part)) {
    return VideoFileSources(*file, *video, temporal_patch_size);
  }
  if (const auto* rows = std::get_if<EmbeddingInput>(&part)) return RowSources(*rows, item);
  UnitSource source;
  if (const auto* encoded = std::get_if<EncodedImage>(&part)) {
    TakeBytes(encoded->bytes, encoded->borrow, &source);
  } else {
    const auto& pixels = std::get<PixelImage>(part);
    source = PixelSource(pixels.layout, pixels.width, pixels.height, pixels.row_stride_bytes);
    TakeBytes(pixels.pixels, pixels.borrow, &source);
  }
  std::vector<UnitSource> sources;
  sources.push_back(std::move(source));
  return sources;
}

absl::Status PreparePatches(const UnitSource& source, const model::ImagePlan& plan,
                            const model::ImageProcessorConfig& config, int64_t max_image_pixels,
                            absl::Span<float> patches) {
  if (source.kind == SourceKind::kFile) {
    auto image = media::DecodeImage(source.bytes, {max_image_pixels});
    if (!image.ok()) return image.status();
    if (image->width != source.width || image->height != source.height) {
      return absl::InvalidArgumentError(
          absl::StrCat("its bytes changed after the submit: ", image->width, " x ", image->height,
                       " pixels, planned as ", source.width, " x ", source.height));
    }
    const media::RgbView view = {image->data.data(), image->width, image->height,
                                 int64_t{image->width} * 3};
    return media::PreprocessImage(view, plan, config, patches);
  }
  if (source.kind == SourceKind::kVideoFile) {
    absl::StatusOr<std::vector<media::RgbImage>> images = source.player->Show(source.frame_numbers);
    if (!images.ok()) return images.status();
    std::vector<media::RgbView> views;
    for (const media::RgbImage& image : *images) {
      views.push_back({image.data.data(), image.width, image.height, int64_t{image.width} * 3});
    }
    return media::PreprocessFrames(views, plan, config, patches);
  }
  std::vector<media::RgbImage> converted(static_cast<size_t>(source.frames));
  std::vector<media::RgbView> views;
  for (int32_t i = 0; i < source.frames; ++i) {
    const uint8_t* data = source.bytes.data() + i * source.frame_stride_bytes;
    media::RgbView& view = views.emplace_back(
        media::RgbView{data, source.width, source.height, source.row_stride_bytes});
    if (source.layout == media::RawLayout::kRgb8) continue;
    media::RgbImage& rgb = converted[static_cast<size_t>(i)];
    rgb =
        media::RawToRgb(data, source.width, source.height, source.row_stride_bytes, source.layout);
    view = {rgb.data.data(), rgb.width, rgb.height, int64_t{rgb.width} * 3};
  }
  return media::PreprocessFrames(views, plan, config, patches);
}

absl::Status ReadRows(const UnitSource& source, int64_t width, absl::Span<float> rows) {
  const uint8_t* at = source.bytes.data();
  for (size_t i = 0; i < rows.size(); ++i) {
    if (source.type == EmbeddingType::kFloat32) {
      std::memcpy(&rows[i], at + i * 4, 4);
    } else {
      uint16_t half = 0;
      std::memcpy(&half, at + i * 2, 2);
      rows[i] = source.type == EmbeddingType::kFloat16 ? FromHalf(half)
                                                       : std::bit_cast<float>(uint32_t{half} << 16);
    }
    if (std::isfinite(rows[i])) continue;
    return absl::InvalidArgumentError(absl::StrCat("supplied embedding row ", i / width,
                                                   ", column ", i % width, " is ", rows[i],
                                                   ", want finite numbers"));
  }
  return absl::OkStatus();
}

}  // namespace rserve::runtime
