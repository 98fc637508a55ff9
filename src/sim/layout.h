// Which devices hold what: pipeline stages, tensor-parallel ranks, encoders, layers of each stage.
//
// Written as in the paper: "PP4+E1" is four stages and one encoder of its own, "TP4" one stage of
// four ranks. Without "+E" the encoder shares stage 0's device.

#ifndef RSERVE_SRC_SIM_LAYOUT_H_
#define RSERVE_SRC_SIM_LAYOUT_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace rserve::sim {

struct Layout {
  int32_t stages = 4;
  int32_t ranks = 1;            // of each stage
  int32_t encoders = 1;         // of their own; 0: the encoder shares stage 0's device
  std::vector<int64_t> layers;  // by stage; empty: as even as can be

  int32_t devices() const { return stages * ranks + encoders; }
};

// INVALID_ARGUMENT unless "PPn", "TPn", "PPn+Em" or "TPn+Em" with 1 <= n <= 64, m <= 64.
absl::StatusOr<Layout> ParseLayout(std::string_view name);
std::string LayoutName(const Layout& layout);

// `layers` over `stages`, the first ones taking what is left over.
std::vector<int64_t> EvenLayers(int64_t layers, int32_t stages);
// `thin` layers on stage 0, the rest evenly over the others.
std::vector<int64_t> ThinFirstLayers(int64_t layers, int32_t stages, int64_t thin);

}  // namespace rserve::sim

#endif  // RSERVE_SRC_SIM_LAYOUT_H_
