#include "src/media/image_processor.h"

#include <array>
#include <cstddef>
#include <cstring>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace rserve::media {
namespace {

constexpr int32_t kChannels = 3;
// Far above any model, far below where products of these overflow.
constexpr int32_t kMaxPatch = 1024;
constexpr int32_t kMaxTemporal = 64;
constexpr int32_t kMaxMerge = 64;

absl::Status CheckField(const char* name, int32_t value, int32_t limit) {
  if (value >= 1 && value <= limit) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("image processor ", name, " = ", value, " is outside 1..", limit));
}

absl::Status CheckView(const RgbView& view) {
  if (view.data == nullptr || view.width < 1 || view.height < 1 ||
      view.row_stride_bytes < int64_t{view.width} * kChannels) {
    return absl::InvalidArgumentError(absl::StrCat("RGB view of ", view.width, "x", view.height,
                                                   " pixels with a row stride of ",
                                                   view.row_stride_bytes, " bytes"));
  }
  return absl::OkStatus();
}

// Checks plan and configuration against each other; the value is the length of a patch row.
absl::StatusOr<int64_t> CheckPlan(const model::ImagePlan& plan,
                                  const model::ImageProcessorConfig& config) {
  for (const absl::Status& status :
       {CheckField("patch_size", config.patch_size, kMaxPatch),
        CheckField("temporal_patch_size", config.temporal_patch_size, kMaxTemporal),
        CheckField("merge_size", config.merge_size, kMaxMerge)}) {
    if (!status.ok()) return status;
  }
  const model::Grid& grid = plan.grid;
  const int64_t patch = config.patch_size;
  if (grid.t != 1 || grid.h < 1 || grid.w < 1 || grid.h * patch != plan.resized_height ||
      grid.w * patch != plan.resized_width || grid.h % config.merge_size != 0 ||
      grid.w % config.merge_size != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "image plan of ", plan.resized_width, "x", plan.resized_height, " pixels and grid ", grid.t,
        "x", grid.h, "x", grid.w, " does not fit patch_size = ", patch,
        " and merge_size = ", config.merge_size));
  }
  return kChannels * int64_t{config.temporal_patch_size} * patch * patch;
}

// What an 8-bit sample becomes, for each channel. The rounding is the reference's: the product in
// double, rounded to float, then difference and quotient in float.
using ValueTable = std::array<std::array<float, 256>, kChannels>;

ValueTable MakeValueTable(const model::ImageProcessorConfig& config) {
  ValueTable table;
  for (size_t c = 0; c < kChannels; ++c) {
    for (int32_t sample = 0; sample < 256; ++sample) {
      float value = static_cast<float>(sample);
      if (config.do_rescale) value = static_cast<float>(sample * config.rescale_factor);
      if (config.do_normalize) value = (value - config.image_mean[c]) / config.image_std[c];
      table[c][static_cast<size_t>(sample)] = value;
    }
  }
  return table;
}

// The grid position of a row: rows run through the merge x merge windows one after the other.
struct PatchPosition {
  int64_t y;
  int64_t x;
};

PatchPosition PositionOf(int64_t row, int64_t grid_width, int64_t merge) {
  const int64_t window = row / (merge * merge);
  const int64_t inside = row % (merge * merge);
  const int64_t windows_a_row = grid_width / merge;
  return {window / windows_a_row * merge + inside / merge,
          window % windows_a_row * merge + inside % merge};
}

// PatchifyRows with the frames of the temporal patch; the last one stands for those that lack.
absl::Status PatchifyFrames(absl::Span<const RgbView> frames, const model::ImagePlan& plan,
                            const model::ImageProcessorConfig& config, int64_t first_patch,
                            absl::Span<float> patches) {
  const absl::StatusOr<int64_t> row_length = CheckPlan(plan, config);
  if (!row_length.ok()) return row_length.status();
  for (const RgbView& frame : frames) {
    if (absl::Status status = CheckView(frame); !status.ok()) return status;
    if (frame.width == plan.resized_width && frame.height == plan.resized_height) continue;
    return absl::InvalidArgumentError(absl::StrCat("image of ", frame.width, "x", frame.height,
                                                   " pixels where the plan has ",
                                                   plan.resized_width, "x", plan.resized_height));
  }
  const auto size = static_cast<int64_t>(patches.size());
  const int64_t count = size / *row_length;
  if (size % *row_length != 0 || first_patch < 0 || first_patch > plan.grid.patches() ||
      count > plan.grid.patches() - first_patch) {
    return absl::InvalidArgumentError(absl::StrCat("patch buffer of ", size, " floats from patch ",
                                                   first_patch, " on; the plan has ",
                                                   plan.grid.patches(), " rows of ", *row_length));
  }

  const ValueTable table = MakeValueTable(config);
  const int64_t patch = config.patch_size;
  const int64_t plane = patch * patch;
  float* out = patches.data();
  for (int64_t row = first_patch; row < first_patch + count; ++row) {
    const PatchPosition at = PositionOf(row, plan.grid.w, config.merge_size);
    for (size_t c = 0; c < kChannels; ++c) {
      const std::array<float, 256>& values = table[c];
      for (const RgbView& frame : frames) {
        const uint8_t* corner = frame.data + at.y * patch * frame.row_stride_bytes +
                                at.x * patch * kChannels + static_cast<int64_t>(c);
        for (int64_t y = 0; y < patch; ++y) {
          const uint8_t* sample = corner + y * frame.row_stride_bytes;
          for (int64_t x = 0; x < patch; ++x) *out++ = values[sample[x * kChannels]];
        }
      }
      // A still image is its own next frame.
      for (auto t = static_cast<int32_t>(frames.size()); t < config.temporal_patch_size; ++t) {
        std::memcpy(out, out - plane, static_cast<size_t>(plane) * sizeof(float));
        out += plane;
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status PatchifyRows(const RgbView& resized, const model::ImagePlan& plan,
                          const model::ImageProcessorConfig& config, int64_t first_patch,
                          absl::Span<float> patches) {
  return PatchifyFrames(absl::MakeConstSpan(&resized, 1), plan, config, first_patch, patches);
}

absl::Status PreprocessFrames(absl::Span<const RgbView> frames, const model::ImagePlan& plan,
                              const model::ImageProcessorConfig& config,
                              absl::Span<float> patches) {
  // Everything is checked before the resize allocates.
  const absl::StatusOr<int64_t> row_length = CheckPlan(plan, config);
  if (!row_length.ok()) return row_length.status();
  if (frames.empty() || frames.size() > static_cast<size_t>(config.temporal_patch_size)) {
    return absl::InvalidArgumentError(absl::StrCat(
        frames.size(), " frames for a temporal patch of ", config.temporal_patch_size));
  }
  for (const RgbView& frame : frames) {
    if (absl::Status status = CheckView(frame); !status.ok()) return status;
  }
  const auto rows = static_cast<int64_t>(patches.size()) / *row_length;
  if (rows != plan.grid.patches() || rows * *row_length != static_cast<int64_t>(patches.size())) {
    return absl::InvalidArgumentError(absl::StrCat("patch buffer of ", patches.size(),
                                                   " floats; the plan has ", plan.grid.patches(),
                                                   " rows of ", *row_length));
  }
  std::vector<RgbImage> resized(frames.size());
  std::vector<RgbView> views(frames.begin(), frames.end());
  for (size_t i = 0; i < frames.size(); ++i) {
    const RgbView& frame = frames[i];
    // With do_resize off PatchifyFrames refuses an image of another size.
    if (!config.do_resize ||
        (frame.width == plan.resized_width && frame.height == plan.resized_height)) {
      continue;
    }
    resized[i] = ResizeBicubic(frame, plan.resized_width, plan.resized_height);
    views[i] = {resized[i].data.data(), resized[i].width, resized[i].height,
                int64_t{resized[i].width} * kChannels};
  }
  return PatchifyFrames(views, plan, config, 0, patches);
}

absl::Status PreprocessImage(const RgbView& source, const model::ImagePlan& plan,
                             const model::ImageProcessorConfig& config, absl::Span<float> patches) {
  return PreprocessFrames(absl::MakeConstSpan(&source, 1), plan, config, patches);
}

}  // namespace rserve::media
