// Videos before their pixels: which frames are taken, into how many temporal patches they go, and
// where these stand in time.
//
// The reference has changed here in 2026. Inside a video the rule is that of transformers 5.18 and
// later (5.24.0 was compared): the temporal position of patch i is floor(i * (seconds_per_grid *
// tokens_per_second)), in 32-bit floats and in this order. Qwen2.5-VL was trained so, but for the
// order of the product, which rounds alike where tokens_per_second is a power of two (it is 2).
// 5.17.0, which is pinned for all else, cuts seconds_per_grid to a whole number first (issue
// 48669), so that a video of more than two frames a second stands at 0.
//
// Text after a video begins behind its largest position on any axis, as in training. Both versions
// let it begin behind the height and width alone, among the positions of a long video's last
// patches; results differ there, on purpose.

#ifndef RSERVE_SRC_MODEL_SPEC_VIDEO_PLAN_H_
#define RSERVE_SRC_MODEL_SPEC_VIDEO_PLAN_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "src/model/spec/image_plan.h"

namespace rserve::model {

// Temporal positions of one video are below this (over a week of video).
inline constexpr int64_t kMaxTemporalPosition = int64_t{1} << 22;

// Plans `frames` frames of one size: each is resized as a still image of its size would be, and
// every temporal_patch_size of them are a temporal patch (the last frame is repeated to fill up).
absl::StatusOr<ImagePlan> PlanVideo(int64_t height, int64_t width, int64_t frames,
                                    const ImageProcessorConfig& config);

// The temporal position of each of `patches` temporal patches, relative to the first's, which is 0.
// INVALID_ARGUMENT for a time between patches that is not a positive number, or positions that are
// out of range.
absl::StatusOr<std::vector<int32_t>> TemporalPositions(int64_t patches, double seconds_per_grid,
                                                       float tokens_per_second);

// The same for frames with times of their own, in seconds, one a frame, not descending: a patch
// stands where its first frame does.
absl::StatusOr<std::vector<int32_t>> TemporalPositions(absl::Span<const double> timestamps_s,
                                                       int32_t temporal_patch_size,
                                                       float tokens_per_second);

// How frames are chosen from a longer video.
struct FrameSampling {
  double fps = 2.0;        // frames to take a second of video
  int64_t num_frames = 0;  // or this many in all, rounded to temporal patches; 0: by fps
  int64_t min_frames = 4;
  int64_t max_frames = 768;
  int32_t temporal_patch_size = 2;
};

// The numbers of the frames to take, ascending, as the reference's sample_frames gives them.
// `source_fps` is required: a frame rate is never guessed. A video shorter than one temporal patch,
// which the reference cannot sample, gives all its frames. INVALID_ARGUMENT names the number.
absl::StatusOr<std::vector<int64_t>> SampleFrames(int64_t total_frames, double source_fps,
                                                  const FrameSampling& sampling);

}  // namespace rserve::model

#endif  // RSERVE_SRC_MODEL_SPEC_VIDEO_PLAN_H_
