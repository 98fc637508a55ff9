#include "src/runtime/model/video_file.h"

#include <cstddef>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "src/model/spec/video_plan.h"

namespace rserve::runtime {

absl::StatusOr<SampledVideo> SampleVideo(const VideoFile& file, int32_t temporal_patch_size,
                                         int64_t max_image_pixels) {
  if (!(file.fps >= 0) || file.num_frames < 0 || (file.fps > 0 && file.num_frames > 0)) {
    return absl::InvalidArgumentError(absl::StrCat("a video file sampled at fps ", file.fps,
                                                   " and num_frames ", file.num_frames,
                                                   ": want at most one of the two, not negative"));
  }
  absl::StatusOr<media::VideoInfo> info = media::ReadVideo(file.bytes, {max_image_pixels});
  if (!info.ok()) return info.status();
  model::FrameSampling sampling;
  if (file.fps > 0) sampling.fps = file.fps;
  sampling.num_frames = file.num_frames;
  sampling.temporal_patch_size = temporal_patch_size;
  const int64_t total = info->frames();
  // The mean rate, as a decoder tells it.
  const double rate = static_cast<double>(total) / info->duration_s;
  absl::StatusOr<std::vector<int64_t>> frames = model::SampleFrames(total, rate, sampling);
  if (!frames.ok()) return frames.status();
  return SampledVideo{*std::move(info), *std::move(frames)};
}

absl::StatusOr<model::VideoPart> PartOf(const SampledVideo& video, int32_t temporal_patch_size,
                                        const model::ModelConfig& model) {
  std::vector<double> times;
  times.reserve(video.frames.size());
  for (const int64_t frame : video.frames) {
    times.push_back(video.info.begin_s[static_cast<size_t>(frame)]);
  }
  auto temporal =
      model::TemporalPositions(times, temporal_patch_size, model.vision.tokens_per_second);
  if (!temporal.ok()) return temporal.status();
  return model::VideoPart{video.info.height, video.info.width,
                          static_cast<int64_t>(video.frames.size()), *std::move(temporal)};
}

absl::StatusOr<std::vector<media::RgbImage>> VideoPlayer::Show(absl::Span<const int64_t> frames) {
  std::lock_guard<std::mutex> lock(mutex_);
  std::vector<media::RgbImage> images;
  for (const int64_t frame : frames) {
    absl::StatusOr<media::RgbImage> image = player_->Show(frame);
    if (!image.ok()) {
      return absl::Status(image.status().code(),
                          absl::StrCat("frame ", frame, ": ", image.status().message()));
    }
    images.push_back(*std::move(image));
  }
  return images;
}

}  // namespace rserve::runtime
