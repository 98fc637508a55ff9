// rserve sim: the scheduler under virtual time. Finds the subcommand and hands it its arguments.

#include <cstdio>

#include "absl/strings/str_cat.h"
#include "tools/rserve/sim_flags.h"
#include "tools/rserve/text.h"

namespace rserve::tool {
namespace {

constexpr struct {
  const char* name;
  const char* summary;
  int (*run)(Args);
} kCommands[] = {
    {"run", "one system, one workload: latency, throughput, bounds, use of the devices, a trace",
     SimRunCommand},
    {"sweep", "schemes and layouts over rates, as a table and as CSV", SimSweepCommand},
    {"check", "the acceptance bands of the paper, and the adaptive scheme against fixed ones",
     SimCheckCommand},
    {"fit", "costs from a measured `rserve bench`, and what they predict beside what was measured",
     SimFitCommand},
    {"figures", "the paper's figures as CSV, SVG and one HTML report", SimFiguresCommand},
    {"replay", "recorded arrivals through several schemes and layouts", SimReplayCommand},
    {"plan", "the best layouts of a number of devices for a workload and an SLO", SimPlanCommand},
    {"workload", "write a workload as JSONL", SimWorkloadCommand},
};

std::string Help() {
  std::string out =
      "usage: rserve sim COMMAND [options]\n\n"
      "Drives the same scheduler that serves with virtual time and a cost model: what a layout, a\n"
      "scheme, C and B would do on hardware that is not there. docs/simulator.md says what is\n"
      "modelled. No result here is a measurement.\n\n";
  for (const auto& command : kCommands) {
    absl::StrAppend(&out, HelpEntry(absl::StrCat("  ", command.name), command.summary, 16, 100));
  }
  return out;
}

}  // namespace

int SimCommand(Args args) {
  if (args.empty() || args[0] == "--help" || args[0] == "-h") {
    std::fputs(Help().c_str(), args.empty() ? stderr : stdout);
    return args.empty() ? kExitUsage : kExitOk;
  }
  for (const auto& command : kCommands) {
    if (args[0] == command.name) return command.run(args.subspan(1));
  }
  return FailUsage(absl::InvalidArgumentError(
      absl::StrCat("sim has no command '", args[0], "'; 'rserve sim --help' lists them")));
}

}  // namespace rserve::tool
