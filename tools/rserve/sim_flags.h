// What the subcommands of `rserve sim` share: the simulated system and the workload as options.

#ifndef RSERVE_TOOLS_RSERVE_SIM_FLAGS_H_
#define RSERVE_TOOLS_RSERVE_SIM_FLAGS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "src/sim/experiment.h"
#include "tools/rserve/command.h"
#include "tools/rserve/options.h"

namespace rserve::tool {

struct SystemFlags {
  std::string config_file;
  std::string model = "72b";
  std::string hardware = "h100";
  std::string calibration = "b";
  std::string layout = "PP4+E1";
  std::string scheme = "rserve";
  std::vector<std::string> layers;
  int64_t encode_batch = 0;  // 0: the scheme's
  int64_t token_budget = 0;
  int64_t media_lanes = -1;
  int64_t embedding_bytes = 0;
  int64_t kv_tokens = 0;
  int64_t order_stretch = -1;
  double slo_s = 0;
  bool feasible_first = false;
};

struct WorkloadFlags {
  std::string kind = "mmmu-1k";
  std::string file;
  std::string arrivals = "poisson";
  double rate = 1;
  int64_t burst = 8;
  int64_t requests = 300;
  int64_t seed = 1;
  int64_t fixed_items = 20;
  int64_t fixed_item_tokens = 1024;
  int64_t fixed_text_tokens = 2000;
};

void AddSystemFlags(OptionTable* table, SystemFlags* flags);
void AddWorkloadFlags(OptionTable* table, WorkloadFlags* flags);

// `scheme` and `layout` stand in the place of the flags'. A layout without an encoder of its own
// gets balanced layers under the adaptive scheme, for requests like the workload's.
absl::StatusOr<sim::SimConfig> MakeSystem(const SystemFlags& flags, const std::string& scheme,
                                          const std::string& layout, const WorkloadFlags& workload);
absl::StatusOr<sim::WorkloadSpec> MakeSpec(const WorkloadFlags& flags);
// The requests of the file, or generated ones.
absl::StatusOr<std::vector<sim::SimRequest>> MakeWorkload(const WorkloadFlags& flags);

int SimRunCommand(Args args);
int SimSweepCommand(Args args);
int SimCheckCommand(Args args);
int SimPlanCommand(Args args);
int SimFiguresCommand(Args args);
int SimReplayCommand(Args args);
int SimFitCommand(Args args);
int SimWorkloadCommand(Args args);

}  // namespace rserve::tool

#endif  // RSERVE_TOOLS_RSERVE_SIM_FLAGS_H_
