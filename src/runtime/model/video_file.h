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
#include "src/media/gif_video.h"
#include "src/model/spec/model_config.h"
#include "src/model/spec/prompt_plan.h"

namespace rserve::runtime {

struct SampledVideo {
  media::GifVideoInfo info;
  std::vector<int64_t> frames;  // their numbers, ascending
};

// Reads the file's blocks, never its pixels. INVALID_ARGUMENT for a damaged file or a faulty rate,
// RESOURCE_EXHAUSTED over max_image_pixels (of a frame) or what gif_video.h bounds by it.
absl::StatusOr<SampledVideo> SampleVideo(const VideoFile& file, int32_t temporal_patch_size,
                                         int64_t max_image_pixels);

// The prompt part to plan: every frame stands at its own time.
absl::StatusOr<model::VideoPart> PartOf(const SampledVideo& video, int32_t temporal_patch_size,
                                        const model::ModelConfig& model);

// A file that the units of one video show their frames from, in turn.
class VideoPlayer {
 public:
  VideoPlayer(absl::Span<const uint8_t> bytes, const media::GifVideoInfo& info)
      : player_(bytes, info) {}

  absl::StatusOr<std::vector<media::RgbImage>> Show(absl::Span<const int64_t> frames)
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  std::mutex mutex_;
  media::GifPlayer player_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace rserve::runtime

#endif  // RSERVE_SRC_RUNTIME_MODEL_VIDEO_FILE_H_
