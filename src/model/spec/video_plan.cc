#include "src/model/spec/video_plan.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"

namespace rserve::model {
namespace {

constexpr int64_t kMaxFrames = int64_t{1} << 24;  // whole numbers of a float

absl::Status CheckPosition(float position, int64_t patch) {
  if (position >= 0 && position < static_cast<float>(kMaxTemporalPosition)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("temporal patch ", patch, " stands at position ",
                                                 position, ", want 0 to ", kMaxTemporalPosition,
                                                 " - 1"));
}

}  // namespace

absl::StatusOr<ImagePlan> PlanVideo(int64_t height, int64_t width, int64_t frames,
                                    const ImageProcessorConfig& config) {
  if (frames < 1 || frames > kMaxFrames) {
    return absl::InvalidArgumentError(
        absl::StrCat("a video of ", frames, " frames: want 1 to ", kMaxFrames));
  }
  absl::StatusOr<ImagePlan> plan = PlanImage(height, width, config);
  if (!plan.ok()) return plan.status();
  plan->grid.t = static_cast<int32_t>((frames - 1) / config.temporal_patch_size + 1);
  plan->tokens *= plan->grid.t;
  return plan;
}

absl::StatusOr<std::vector<int32_t>> TemporalPositions(int64_t patches, double seconds_per_grid,
                                                       float tokens_per_second) {
  if (!(seconds_per_grid > 0) || !std::isfinite(seconds_per_grid)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a time of ", seconds_per_grid, " s between temporal patches: want a positive number"));
  }
  std::vector<int32_t> positions;
  positions.reserve(static_cast<size_t>(patches));
  const float interval = static_cast<float>(seconds_per_grid) * tokens_per_second;
  for (int64_t i = 0; i < patches; ++i) {
    const float position = static_cast<float>(i) * interval;
    if (absl::Status status = CheckPosition(position, i); !status.ok()) return status;
    positions.push_back(static_cast<int32_t>(position));
  }
  return positions;
}

absl::StatusOr<std::vector<int32_t>> TemporalPositions(absl::Span<const double> timestamps_s,
                                                       int32_t temporal_patch_size,
                                                       float tokens_per_second) {
  std::vector<int32_t> positions;
  for (size_t i = 0; i < timestamps_s.size(); ++i) {
    if (!std::isfinite(timestamps_s[i]) || (i > 0 && timestamps_s[i] < timestamps_s[i - 1])) {
      return absl::InvalidArgumentError(
          absl::StrCat("timestamp ", i, " is ", timestamps_s[i], ": want numbers that ascend"));
    }
    if (i % static_cast<size_t>(temporal_patch_size) != 0) continue;
    const float position =
        static_cast<float>(timestamps_s[i] - timestamps_s[0]) * tokens_per_second;
    if (absl::Status status = CheckPosition(position, static_cast<int64_t>(positions.size()));
        !status.ok()) {
      return status;
    }
    positions.push_back(static_cast<int32_t>(position));
  }
  return positions;
}

absl::StatusOr<std::vector<int64_t>> SampleFrames(int64_t total_frames, double source_fps,
                                                  const FrameSampling& sampling) {
  const int64_t patch = sampling.temporal_patch_size;
  if (total_frames < 1 || total_frames > kMaxFrames || patch < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("a video of ", total_frames, " frames: want 1 to ", kMaxFrames));
  }
  double wanted = 0;
  if (sampling.num_frames > 0) {
    wanted = std::nearbyint(static_cast<double>(sampling.num_frames) / static_cast<double>(patch)) *
             static_cast<double>(patch);
  } else {
    if (!(source_fps > 0) || !std::isfinite(source_fps) || !(sampling.fps > 0) ||
        !std::isfinite(sampling.fps)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "frame rates of ", source_fps, " and ", sampling.fps, " a second: want positive ones"));
    }
    const int64_t most = std::min(sampling.max_frames, total_frames) / patch * patch;
    wanted = static_cast<double>(total_frames) / source_fps * sampling.fps;
    wanted = std::min({std::max(wanted, static_cast<double>(sampling.min_frames)),
                       static_cast<double>(most), static_cast<double>(total_frames)});
    wanted = std::floor(wanted / static_cast<double>(patch)) * static_cast<double>(patch);
  }
  if (wanted > static_cast<double>(total_frames)) {
    return absl::InvalidArgumentError(absl::StrCat("num_frames ", sampling.num_frames,
                                                   " is more than the video's ", total_frames));
  }
  if (wanted < 1) wanted = static_cast<double>(total_frames);  // shorter than one temporal patch
  const double step = static_cast<double>(total_frames) / wanted;
  // The reference rounds the quotient up, which can be one more than was wanted: a frame behind the
  // last one, which it then fails to take.
  const auto count = static_cast<int64_t>(wanted);
  std::vector<int64_t> frames;
  frames.reserve(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    // In 32 bits, as the reference's tensor of frame numbers is made; these may round up.
    const auto frame = static_cast<int64_t>(static_cast<float>(static_cast<double>(i) * step));
    frames.push_back(std::min(frame, total_frames - 1));
  }
  return frames;
}

}  // namespace rserve::model
