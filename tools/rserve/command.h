// What every subcommand shares: its entry in the list, --help, exit codes, error lines.

#ifndef RSERVE_TOOLS_RSERVE_COMMAND_H_
#define RSERVE_TOOLS_RSERVE_COMMAND_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tools/rserve/options.h"

namespace rserve::tool {

inline constexpr int kExitOk = 0;
inline constexpr int kExitFailure = 1;  // the work could not be done, or a check did not hold
inline constexpr int kExitUsage = 2;    // the command line is wrong

using Args = absl::Span<const std::string>;  // after the subcommand's name

// Each returns the exit code.
int RunCommand(Args args);
int EvalCommand(Args args);
int BenchCommand(Args args);
int BenchKernelsCommand(Args args);  // bench kernels
int BenchModelCommand(Args args);    // bench model
int MakeModelCommand(Args args);
int InspectCommand(Args args);
int SimCommand(Args args);

// Texts of --help around the option table.
struct CommandText {
  absl::string_view name;
  absl::string_view description;
  absl::string_view examples;
};

// Parses the arguments. A value means that the command is over: --help was printed (kExitOk) or the
// arguments are wrong (kExitUsage, one line on stderr).
std::optional<int> ParseOrHelp(const CommandText& text, OptionTable* table, Args args);

// Prints "rserve: MESSAGE" on stderr and returns the exit code.
int Fail(const absl::Status& status);
int FailUsage(const absl::Status& status);

}  // namespace rserve::tool

#endif  // RSERVE_TOOLS_RSERVE_COMMAND_H_
