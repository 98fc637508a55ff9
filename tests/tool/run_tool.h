// Runs the built `rserve` command as a user would.

#ifndef RSERVE_TESTS_TOOL_RUN_TOOL_H_
#define RSERVE_TESTS_TOOL_RUN_TOOL_H_

#include <string>
#include <vector>

namespace rserve::tool {

struct Ran {
  int code = -1;    // exit code; -1: ended by a signal or not started
  std::string out;  // stdout
  std::string err;  // stderr
};

// RSERVE_TOOL_PATH with these arguments; waits for its end.
Ran RunTool(const std::vector<std::string>& args);

// A file's bytes; fails the test when there is none.
std::string Slurp(const std::string& path);

// A committed test picture.
std::string Picture(const std::string& name);

// The folder of a tiny model that make-model wrote, made once for the test program.
const std::string& TinyModel();

}  // namespace rserve::tool

#endif  // RSERVE_TESTS_TOOL_RUN_TOOL_H_
