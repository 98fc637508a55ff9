#include "tests/tool/run_tool.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <string>

#include "tests/model/temp_folder.h"
#include "tests/support/catch.h"

extern char** environ;

namespace rserve::tool {

Ran RunTool(const std::vector<std::string>& args) {
  const model::TempFolder folder;
  const std::string out = folder.File("out"), err = folder.File("err");
  std::vector<std::string> all = {RSERVE_TOOL_PATH};
  all.insert(all.end(), args.begin(), args.end());
  std::vector<char*> argv;
  for (std::string& arg : all) argv.push_back(arg.data());
  argv.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  constexpr int kCreate = O_WRONLY | O_CREAT | O_TRUNC;
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, out.c_str(), kCreate, 0600);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, err.c_str(), kCreate, 0600);
  pid_t pid = 0;
  const int failed = posix_spawn(&pid, RSERVE_TOOL_PATH, &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  REQUIRE(failed == 0);
  int status = 0;
  REQUIRE(waitpid(pid, &status, 0) == pid);
  Ran ran;
  ran.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  ran.out = Slurp(out);
  ran.err = Slurp(err);
  return ran;
}

std::string Slurp(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  CAPTURE(path);
  REQUIRE(file.good());
  return std::string(std::istreambuf_iterator<char>(file), {});
}

std::string Picture(const std::string& name) {
  return std::string(RSERVE_SOURCE_DIR) + "/tests/data/media/" + name;
}

const std::string& TinyModel() {
  static const model::TempFolder folder;
  static const std::string path = [] {
    const std::string model = folder.File("tiny");
    const Ran ran = RunTool({"make-model", model, "--preset", "3b", "--layers", "3", "--hidden",
                             "64", "--vision-layers", "2", "--vision-hidden", "64", "--vocab",
                             "1280", "--max-positions", "512", "--max-pixels", "50176"});
    CAPTURE(ran.err);
    REQUIRE(ran.code == 0);
    return model;
  }();
  return path;
}

}  // namespace rserve::tool
