// Named schemes as settings of a simulation: the library's, and the baselines of the paper.

#ifndef RSERVE_SRC_SIM_SCHEME_H_
#define RSERVE_SRC_SIM_SCHEME_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "src/sim/simulator.h"

namespace rserve::sim {

// "colocated" (gLLM), "vllm", "epd", "rserve_intra", "rserve", "adaptive".
std::vector<std::string> SchemeNames();

// Sets scheme, policy, media lanes and who goes first on a shared device. The layout stays;
// INVALID_ARGUMENT when it does not suit the scheme (an encoder of its own, or none).
absl::Status ApplyScheme(std::string_view name, SimConfig* config);

}  // namespace rserve::sim

#endif  // RSERVE_SRC_SIM_SCHEME_H_
