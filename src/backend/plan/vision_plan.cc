#include "src/backend/plan/vision_plan.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace rserve::backend {

absl::Status CheckGrid(const model::Grid& grid, int64_t unit, const model::VisionConfig& config) {
  const int32_t merge = config.spatial_merge_size;
  const auto shape = [&] { return absl::StrCat(grid.t, " x ", grid.h, " x ", grid.w); };
  if (grid.t < 1 || grid.h < 1 || grid.w < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("unit ", unit, ": the grid ", shape(), " is empty"));
  }
  if (grid.h % merge != 0 || grid.w % merge != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "unit ", unit, ": the grid ", shape(), " is not a multiple of spatial_merge_size ", merge));
  }
  const int64_t frame = int64_t{grid.h} * grid.w;
  if (frame > kMaxUnitPatches / grid.t) {
    return absl::InvalidArgumentError(absl::StrCat("unit ", unit, ": the grid ", shape(),
                                                   " has more than ", kMaxUnitPatches, " patches"));
  }
  return absl::OkStatus();
}

void VisionPlan::Clear() {
  rows.clear();
  cells.clear();
  windows.clear();
  frames.clear();
}

void VisionPlan::Append(const model::Grid& grid, int32_t unit, const model::VisionConfig& config) {
  const int32_t merge = config.spatial_merge_size;
  const int32_t height = grid.h / merge, width = grid.w / merge;  // in cells
  const int32_t window = config.window_size / merge / config.patch_size;
  for (int32_t t = 0; t < grid.t; ++t) {
    frames.push_back({static_cast<int64_t>(rows.size()), int64_t{grid.h} * grid.w});
    for (int32_t wy = 0; wy < height; wy += window) {
      for (int32_t wx = 0; wx < width; wx += window) {
        const int64_t begin = static_cast<int64_t>(rows.size());
        for (int32_t y = wy; y < std::min(wy + window, height); ++y) {
          for (int32_t x = wx; x < std::min(wx + window, width); ++x) {
            const int64_t cell = (int64_t{t} * height + y) * width + x;
            cells.push_back({unit, cell});
            for (int32_t i = 0; i < merge * merge; ++i) {
              rows.push_back(
                  {unit, y * merge + i / merge, x * merge + i % merge, cell * merge * merge + i});
            }
          }
        }
        windows.push_back({begin, static_cast<int64_t>(rows.size()) - begin});
      }
    }
  }
}

}  // namespace rserve::backend
