// A simulation as a JSON file that people can edit: model shape, hardware, calibration, layout,
// policy. Presets are named; any of their numbers can be replaced.

#ifndef RSERVE_SRC_SIM_CONFIG_JSON_H_
#define RSERVE_SRC_SIM_CONFIG_JSON_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "src/sim/simulator.h"

namespace rserve::sim {

// Everything that SimConfig holds, formatted.
std::string ToJson(const SimConfig& config);

// Replaces what the text gives and leaves the rest. "model", "hardware" and "calibration" may be a
// preset's name or an object that starts from the preset in its "name". INVALID_ARGUMENT names the
// field, its value and the range; an unknown field is an error.
absl::Status FromJson(std::string_view text, SimConfig* config);

}  // namespace rserve::sim

#endif  // RSERVE_SRC_SIM_CONFIG_JSON_H_
