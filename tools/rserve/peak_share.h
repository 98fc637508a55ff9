// The share of the FMA peak that undisturbed runs reached, as tables and JSON show it.

#ifndef RSERVE_TOOLS_RSERVE_PEAK_SHARE_H_
#define RSERVE_TOOLS_RSERVE_PEAK_SHARE_H_

#include <string>

#include "nlohmann/json.hpp"
#include "tools/rserve/machine_speed.h"

namespace rserve::tool {

// `flop` of useful work in each run; "-" where no run was alone.
std::string AloneShare(double flop, const Medians& alone);

// entry["alone"]: {repeats, seconds, share_of_fma, speedup}; of 0 repeats only their number,
// without the share where there is no `flop`, without `speedup` where the first contender was never
// alone at the same time.
void AddAlone(double flop, const Medians& alone, nlohmann::json* entry);

}  // namespace rserve::tool

#endif  // RSERVE_TOOLS_RSERVE_PEAK_SHARE_H_
