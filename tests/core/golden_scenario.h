// Golden traces: a scenario as text (configuration, costs, timed inputs) is run on a virtual clock
// and gives the log of all inputs and actions as text, with a timeline of the workers at its end.
//
//   title Figure 9, Case 0           one line, kept in the log
//   scheme rserve                    policy and placement: any name of ParseScheme
//   stages 2                         default 1
//   encoders 1                       default 1; 0: stages only (adaptive: stage 0 encodes)
//   set B 8                          an option, see SetOption in golden_scenario.cc
//   cost encode 4 1                  ticks an action: base, and for each token
//   cost stage 2 0
//   cost prepare 1 0
//   at 0 submit 1 text:4 image:4     parts of the prompt; video:4,4 is an item of two units
//   at 5 cancel 1
//   at 0 fail encode 2 unavailable   the 2nd encode batch of the run fails
//   at 9 deadline 1 20               (before its submit) the request's deadline
//
// '#' begins a comment. A tick is a nanosecond.

#ifndef RSERVE_TESTS_CORE_GOLDEN_SCENARIO_H_
#define RSERVE_TESTS_CORE_GOLDEN_SCENARIO_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "rserve/cc/orchestrator.h"

namespace rserve::test {

struct ScenarioCost {
  TimeNs base = 1;
  TimeNs per_token = 0;
};

struct ScenarioInput {
  TimeNs at = 0;
  Input input;
};

struct Scenario {
  std::string title;
  OrchestratorConfig config;
  ScenarioCost prepare, encode, stage;
  std::vector<ScenarioInput> inputs;                // in order of time
  std::map<int64_t, absl::Status> encode_failures;  // by the number of the batch, from 1
};

// INVALID_ARGUMENT names the line.
absl::StatusOr<Scenario> ParseScenario(const std::string& text);

// The log. INTERNAL when the orchestrator does not come to rest.
absl::StatusOr<std::string> RunScenario(const Scenario& scenario);

}  // namespace rserve::test

#endif  // RSERVE_TESTS_CORE_GOLDEN_SCENARIO_H_
