// Video files: which of their frames are taken, and when these are.

#ifndef RSERVE_SRC_RUNTIME_MODEL_VIDEO_FILE_H_
#define RSERVE_SRC_RUNTIME_MODEL_VIDEO_FILE_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "rserve/cc/model_engine.h"
#include "src/media/video.h"
#include "src/model/spec/model_config.h"
#include "src/model/spec/prompt_plan.h"

namespace rserve::runtime {

struct SampledVideo {
  media::VideoInfo info;
  std::vector<int64_t> frames;  // their numbers, ascending
};

// Reads the file's structure, never its pixels. INVALID_ARGUMENT for a damaged file or a faulty
// rate, otherwise as media::ReadVideo.
absl::StatusOr<SampledVideo> SampleVideo(const VideoFile& file, int32_t temporal_patch_size,
                                         int64_t max_image_pixels);

// The prompt part to plan: every frame stands at its own time.
absl::StatusOr<model::VideoPart> PartOf(const SampledVideo& video, int32_t temporal_patch_size,
                                        const model::ModelConfig& model);

// A file that the units of one video show their frames from, in turn.
class VideoPlayer {
 public:
  VideoPlayer(absl::Span<const uint8_t> bytes, const media::VideoInfo& info)
      : player_(media::MakeFramePlayer(bytes, info)) {}

  absl::StatusOr<std::vector<media::RgbImage>> Show(absl::Span<const int64_t> frames)
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  std::mutex mutex_;
  const std::unique_ptr<media::FramePlayer> player_ ABSL_PT_GUARDED_BY(mutex_);
};

}  // namespace rserve::runtime

#endif  // RSERVE_SRC_RUNTIME_MODEL_VIDEO_FILE_H_
