#include "src/runtime/model/part_check.h"

#include <cstddef>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/media/image.h"
#include "src/media/raw_pixels.h"
#include "src/model/spec/video_plan.h"
#include "src/runtime/model/unit_source.h"

namespace rserve::runtime {

namespace {

constexpr int64_t kMaxInt64 = std::numeric_limits<int64_t>::max();

// The bytes that one image or frame takes, from its first row's begin to its last row's end.
absl::StatusOr<int64_t> FrameBytes(PixelLayout layout, int32_t width, int32_t height,
                                   int64_t row_stride_bytes, int64_t max_image_pixels) {
  const int64_t pixel_bytes = media::RawPixelBytes(static_cast<media::RawLayout>(layout));
  if (pixel_bytes == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("unknown pixel layout ", static_cast<int32_t>(layout)));
  }
  if (width < 1 || height < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("pixels of width ", width, " and height ", height));
  }
  if (int64_t{width} * height > max_image_pixels) {
    return absl::ResourceExhaustedError(absl::StrCat("a picture of ", width, " x ", height,
                                                     " pixels, at most ", max_image_pixels,
                                                     " are taken (option max_image_pixels)"));
  }
  const int64_t row = width * pixel_bytes;
  const int64_t stride = row_stride_bytes == 0 ? row : row_stride_bytes;
  if (stride < row || stride > kMaxInt64 / height) {
    return absl::InvalidArgumentError(absl::StrCat("row_stride_bytes is ", stride, ", a row of ",
                                                   width, " pixels has ", row, " bytes"));
  }
  return stride * (height - 1) + row;
}

}  // namespace

absl::StatusOr<model::ImagePart> CheckPart(const EncodedImage& image, int64_t max_image_pixels) {
  auto header = media::ReadImageHeader(image.bytes, {max_image_pixels});
  if (!header.ok()) return header.status();
  return model::ImagePart{header->height, header->width};
}

absl::StatusOr<model::ImagePart> CheckPart(const PixelImage& image, int64_t max_image_pixels) {
  auto needed =
      FrameBytes(image.layout, image.width, image.height, image.row_stride_bytes, max_image_pixels);
  if (!needed.ok()) return needed.status();
  if (static_cast<uint64_t>(*needed) > image.pixels.size()) {
    return absl::InvalidArgumentError(absl::StrCat("pixels of ", image.width, " x ", image.height,
                                                   " take ", *needed, " bytes, ",
                                                   image.pixels.size(), " are given"));
  }
  return model::ImagePart{image.height, image.width};
}

absl::StatusOr<model::VideoPart> CheckPart(const VideoFrames& video,
                                           const model::ImageProcessorConfig& processor,
                                           const model::ModelConfig& model,
                                           int64_t max_image_pixels) {
  auto frame =
      FrameBytes(video.layout, video.width, video.height, video.row_stride_bytes, max_image_pixels);
  if (!frame.ok()) return frame.status();
  if (video.frames < 1) {
    return absl::InvalidArgumentError(absl::StrCat("a video of ", video.frames, " frames"));
  }
  const int64_t row =
      int64_t{video.width} * media::RawPixelBytes(static_cast<media::RawLayout>(video.layout));
  const int64_t rows = (video.row_stride_bytes == 0 ? row : video.row_stride_bytes) * video.height;
  const int64_t stride = video.frame_stride_bytes == 0 ? rows : video.frame_stride_bytes;
  if (stride < *frame || stride > (kMaxInt64 - *frame) / video.frames) {
    return absl::InvalidArgumentError(
        absl::StrCat("frame_stride_bytes is ", stride, ", a frame takes ", *frame, " bytes"));
  }
  const int64_t needed = stride * (video.frames - 1) + *frame;
  if (static_cast<uint64_t>(needed) > video.pixels.size()) {
    return absl::InvalidArgumentError(absl::StrCat(video.frames, " frames of ", video.width, " x ",
                                                   video.height, " pixels take ", needed,
                                                   " bytes, ", video.pixels.size(), " are given"));
  }
  // A frame rate is never guessed: the same frames at another rate are another video.
  if ((video.fps != 0) == !video.timestamps_s.empty()) {
    return absl::InvalidArgumentError(
        "a video needs either fps, the rate of its frames, or timestamps_s, one a frame");
  }
  absl::StatusOr<std::vector<int32_t>> temporal;
  const int32_t patch = processor.temporal_patch_size;
  if (!video.timestamps_s.empty()) {
    if (video.timestamps_s.size() != static_cast<size_t>(video.frames)) {
      return absl::InvalidArgumentError(
          absl::StrCat(video.timestamps_s.size(), " timestamps for ", video.frames, " frames"));
    }
    temporal = model::TemporalPositions(video.timestamps_s, patch, model.vision.tokens_per_second);
  } else if (!(video.fps > 0)) {
    return absl::InvalidArgumentError(absl::StrCat("fps is ", video.fps));
  } else {
    temporal = model::TemporalPositions((int64_t{video.frames} - 1) / patch + 1, patch / video.fps,
                                        model.vision.tokens_per_second);
  }
  if (!temporal.ok()) return temporal.status();
  return model::VideoPart{video.height, video.width, video.frames, *std::move(temporal)};
}

absl::StatusOr<model::EmbeddingPart> CheckPart(const EmbeddingInput& input,
                                               const model::ModelConfig& model) {
  const int64_t type_bytes = EmbeddingTypeBytes(input.type);
  if (type_bytes == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("unknown embedding type ", static_cast<int32_t>(input.type)));
  }
  if (input.shape.size() != 2) {
    return absl::InvalidArgumentError(absl::StrCat("supplied embeddings have ", input.shape.size(),
                                                   " dimensions, want [rows, width]"));
  }
  const int64_t rows = input.shape[0];
  const int64_t width = input.shape[1];
  if (width != model.text.hidden_size) {
    return absl::InvalidArgumentError(absl::StrCat(
        "supplied embeddings are ", width, " wide, the model takes ", model.text.hidden_size));
  }
  if (rows < 1 || rows > kMaxInt64 / (width * type_bytes) ||
      static_cast<uint64_t>(rows * width * type_bytes) != input.data.size()) {
    return absl::InvalidArgumentError(absl::StrCat(rows, " rows of ", width, " numbers of ",
                                                   type_bytes, " bytes where ", input.data.size(),
                                                   " bytes are given"));
  }
  if (input.grid_t < 1 || input.grid_h < 1 || input.grid_w < 1 || input.grid_t > rows ||
      int64_t{input.grid_h} * input.grid_w > rows ||
      int64_t{input.grid_h} * input.grid_w * input.grid_t != rows) {
    return absl::InvalidArgumentError(absl::StrCat("a grid of ", input.grid_t, " x ", input.grid_h,
                                                   " x ", input.grid_w, " for ", rows,
                                                   " embedding rows"));
  }
  model::EmbeddingPart part;
  part.grid = {input.grid_t, input.grid_h, input.grid_w};
  if (input.seconds_per_grid != 0) {
    auto temporal = model::TemporalPositions(input.grid_t, input.seconds_per_grid,
                                             model.vision.tokens_per_second);
    if (!temporal.ok()) return temporal.status();
    part.temporal = *std::move(temporal);
  } else if (input.grid_t != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("embeddings of ", input.grid_t, " temporal patches need seconds_per_grid"));
  }
  return part;
}

}  // namespace rserve::runtime
