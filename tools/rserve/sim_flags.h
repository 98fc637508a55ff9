// What the subcommands of `rserve sim` share: the simulated system and the workload as options.

#ifndef RSERVE_TOOLS_RSERVE_SIM_FLAGS_H_
#define RSERVE_TOOLS_RSERVE_SIM_FLAGS_H_

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
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
  bool cases = false;  // set by AddSystemFlags
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

// What arrives: generated, or recorded in a file.
struct Traffic {
  sim::WorkloadSpec spec;
  std::optional<std::vector<sim::SimRequest>> recorded;  // in the place of `spec`
};

// Without the options named in `without`, which mean nothing to a command. A command without
// "scheme" runs cases that have schemes and layouts of their own: of --config only model, hardware
// and calibration count there.
using Names = std::initializer_list<std::string_view>;
void AddSystemFlags(OptionTable* table, SystemFlags* flags, Names without = {});
void AddWorkloadFlags(OptionTable* table, WorkloadFlags* flags, Names without = {});

// `scheme` and `layout` stand in the place of the flags'. A layout without an encoder of its own
// gets balanced layers under the adaptive scheme, for requests like the traffic's.
absl::StatusOr<sim::SimConfig> MakeSystem(const SystemFlags& flags, const std::string& scheme,
                                          const std::string& layout, const Traffic& traffic);
// INVALID_ARGUMENT names the file and line, or the option; a file without requests is one, too.
absl::StatusOr<Traffic> MakeTraffic(const WorkloadFlags& flags);
std::vector<sim::SimRequest> Requests(const Traffic& traffic);

// A case of a list, SCHEME or SCHEME@LAYOUT.
struct SimCase {
  std::string scheme;
  std::string layout;
  std::string Name() const { return scheme + " " + layout; }
};
SimCase ParseCase(const std::string& text, const std::string& default_layout);

// --seeds, each a number of at least 0.
absl::StatusOr<std::vector<uint64_t>> ParseSeeds(const std::vector<std::string>& texts);

// Why a run served none of its requests: a budget that every one of them is too large for.
absl::Status NothingFits(int64_t requests);
// Seconds, or "-" where no request was served.
std::string TtftCell(double seconds, const sim::Summary& summary);
// The headings of the bounds of a mean TTFT, and their cells.
std::vector<std::string> BoundHeadings();
std::vector<std::string> BoundCells(const sim::Bounds& bounds);

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
