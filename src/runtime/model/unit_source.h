// What a unit is prepared from: the bytes that the host gave for it.

#ifndef RSERVE_SRC_RUNTIME_MODEL_UNIT_SOURCE_H_
#define RSERVE_SRC_RUNTIME_MODEL_UNIT_SOURCE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "rserve/cc/model_engine.h"
#include "src/media/raw_pixels.h"
#include "src/model/spec/image_plan.h"
#include "src/model/spec/prompt_plan.h"
#include "src/runtime/model/sha256.h"
#include "src/runtime/model/video_file.h"

namespace rserve::runtime {

enum class SourceKind : int32_t { kFile = 0, kPixels = 1, kRows = 2, kVideoFile = 3 };

// A picture is one unit, each temporal patch of a video is one, and so is each of supplied rows.
struct UnitSource {
  SourceKind kind = SourceKind::kFile;
  // What was copied, shared by the units of a video; null when the host's memory is borrowed.
  std::shared_ptr<const std::vector<uint8_t>> owned;
  absl::Span<const uint8_t> bytes;  // of this unit, in `owned` or the host's
  media::RawLayout layout = media::RawLayout::kRgb8;
  int32_t width = 0, height = 0;   // oriented
  int64_t row_stride_bytes = 0;    // of pixels
  int32_t frames = 1;              // of pixels
  int64_t frame_stride_bytes = 0;  // of pixels
  EmbeddingType type = EmbeddingType::kFloat32;
  // Of kVideoFile, shared by the video's units.
  std::shared_ptr<VideoPlayer> player;
  std::shared_ptr<SharedDigest> content;  // of the file
  std::vector<int64_t> frame_numbers;     // of kVideoFile
};

// The sources of an item's units, in their order. `part` was checked (part_check.h), `item` planned
// from it. `video`: what was sampled of a VideoFile, null of all else. Copies what the part does
// not lend.
std::vector<UnitSource> MakeSources(const RequestPart& part, const model::PlannedItem& item,
                                    int32_t temporal_patch_size, const SampledVideo* video);

// Decodes and preprocesses: the patch rows of the unit's plan (grid.t 1). Not for kRows.
// INVALID_ARGUMENT when the bytes hold no such picture.
absl::Status PreparePatches(const UnitSource& source, const model::ImagePlan& plan,
                            const model::ImageProcessorConfig& config, int64_t max_image_pixels,
                            absl::Span<float> patches);

// Supplied rows as floats. INVALID_ARGUMENT names the first one that is not finite.
absl::Status ReadRows(const UnitSource& source, int64_t width, absl::Span<float> rows);

// Bytes of one number; 0 for a value that is no type.
int64_t EmbeddingTypeBytes(EmbeddingType type);

}  // namespace rserve::runtime

#endif  // RSERVE_SRC_RUNTIME_MODEL_UNIT_SOURCE_H_
