// The `rserve` command: finds the subcommand and hands it its arguments.

#include <cstdio>
#include <exception>
#include <new>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tools/rserve/command.h"
#include "tools/rserve/text.h"

namespace rserve::tool {
namespace {

struct Command {
  const char* name;
  const char* summary;
  int (*run)(Args);
};

constexpr Command kCommands[] = {
    {"run", "answer one prompt about pictures and show what ran when on which worker", RunCommand},
    {"eval", "answer a file of prompts under every scheme, compare answers and logits bit by bit",
     EvalCommand},
    {"bench",
     "measure schemes side by side: time to first token, throughput, memory, the bound; 'bench "
     "model' and 'bench kernels': the speed of a checkpoint and of the kernels below it",
     BenchCommand},
    {"make-model", "write a checkpoint with random weights at the shapes of a real model",
     MakeModelCommand},
    {"inspect", "what a checkpoint is, and what a request would need, before a pixel is decoded",
     InspectCommand},
    {"sim", "what a layout or a scheme would do on hardware that is not there, in virtual time",
     SimCommand},
};

std::string Help() {
  std::string out =
      "rserve: multimodal inference in which encoding pictures overlaps prefilling the prompt\n\n"
      "usage: rserve COMMAND [arguments]\n\nCommands:\n";
  for (const Command& command : kCommands) {
    absl::StrAppend(&out, HelpEntry(absl::StrCat("  ", command.name), command.summary, 16, 100));
  }
  absl::StrAppend(
      &out,
      "\nFirst steps (MODEL is a folder with config.json, tokenizer.json and *.safetensors):\n"
      "  rserve inspect MODEL\n"
      "  rserve run MODEL --image photo.jpg --prompt \"What is this?\"\n"
      "  rserve run MODEL --image a.png --image b.png --prompt \"Which digit is in picture 2?\" "
      "--scheme epd\n"
      "  rserve make-model /tmp/m --preset 3b --layers 2 --vision-layers 4 && rserve bench /tmp/m\n"
      "\n'rserve COMMAND --help' explains a command's options. 'rserve --version' prints the "
      "version.\nExit codes: 0 done, 1 failed, 2 the command line is wrong.\n");
  return out;
}

int Main(const std::vector<std::string>& args) {
  if (args.empty()) {
    std::fputs(Help().c_str(), stderr);
    return kExitUsage;
  }
  if (args[0] == "--help" || args[0] == "-h" || args[0] == "help") {
    if (args[0] == "help" && args.size() > 1) return Main({args[1], "--help"});
    std::fputs(Help().c_str(), stdout);
    return kExitOk;
  }
  if (args[0] == "--version") {
    std::printf("rserve %s\n", RSERVE_VERSION);
    return kExitOk;
  }
  for (const Command& command : kCommands) {
    if (args[0] == command.name) return command.run(Args(args).subspan(1));
  }
  return FailUsage(absl::InvalidArgumentError(
      absl::StrCat("there is no command '", args[0], "'; 'rserve --help' lists them")));
}

}  // namespace
}  // namespace rserve::tool

int main(int argc, char** argv) {
  using rserve::tool::Fail;
  try {
    const int code = rserve::tool::Main(std::vector<std::string>(argv + 1, argv + argc));
    if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
    return Fail(absl::UnavailableError("the output could not be written"));
  } catch (const std::bad_alloc&) {
    return Fail(absl::ResourceExhaustedError("out of memory"));
  } catch (const std::exception& e) {
    return Fail(absl::InternalError(e.what()));
  }
}
