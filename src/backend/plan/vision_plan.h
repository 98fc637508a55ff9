// Where the rows of a batch of images lie in the vision tower: window order, segments, positions.

#ifndef RSERVE_SRC_BACKEND_PLAN_VISION_PLAN_H_
#define RSERVE_SRC_BACKEND_PLAN_VISION_PLAN_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "src/model/spec/image_plan.h"
#include "src/model/spec/model_config.h"

namespace rserve::backend {

// Rows [begin, begin + count) that attend to each other.
struct Segment {
  int64_t begin = 0;
  int64_t count = 0;
};

// The rows (patches) of several units one after another. Inside a unit the merged cells are put in
// window order, so that a window is a run of rows; a cell's patches stay together.
struct VisionPlan {
  struct Row {
    int32_t unit = 0;
    int32_t y = 0;  // patch row and column in its frame
    int32_t x = 0;
    int64_t source = 0;  // patch index in the unit's input
  };
  struct Cell {
    int32_t unit = 0;
    int64_t target = 0;  // row in the unit's output
  };
  std::vector<Row> rows;
  std::vector<Cell> cells;  // rows.size() / merge_unit
  std::vector<Segment> windows;
  std::vector<Segment> frames;

  void Clear();  // keeps the memory
  // Appends a unit that CheckGrid accepted.
  void Append(const model::Grid& grid, int32_t unit, const model::VisionConfig& config);
};

// Patches that one unit may have: some hundred times the largest published image limit.
inline constexpr int64_t kMaxUnitPatches = int64_t{1} << 22;

// INVALID_ARGUMENT for a grid that is empty, too large, or not a multiple of the merge size.
absl::Status CheckGrid(const model::Grid& grid, int64_t unit, const model::VisionConfig& config);

}  // namespace rserve::backend

#endif  // RSERVE_SRC_BACKEND_PLAN_VISION_PLAN_H_
