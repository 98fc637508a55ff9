// Runs a target on damaged inputs, for a number of runs or of seconds:
//
//   rserve_fuzz TARGET [--runs N | --seconds S] [--seed K]  N inputs, or what S seconds take
//   rserve_fuzz TARGET --only I [--seed K]                  the one input of a number
//   rserve_fuzz TARGET FILE...                              these files as they are
//   rserve_fuzz TARGET --write FOLDER                       the corpus, a file each
//   rserve_fuzz TARGET --words FILE                         the format's words, as libFuzzer reads
//   them rserve_fuzz --list
//
// When a target dies, the number of its input is on the last line, to be given to --only, and the
// input itself in the file fuzz-TARGET.crash of the working directory.

#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

#include "tests/fuzz/mutator.h"
#include "tests/fuzz/targets.h"

// Sanitizers end by abort, so that OnDeath sees every kind of end.
extern "C" const char* __asan_default_options() { return "abort_on_error=1"; }
extern "C" const char* __ubsan_default_options() { return "abort_on_error=1:print_stacktrace=1"; }

namespace rserve::fuzz {
namespace {

constexpr size_t kMaxInputBytes = 1 << 16;
// A run that takes longer than this is a fault: work must stay in proportion to the input.
constexpr unsigned kMaxSecondsARun = 20;

// What OnDeath writes down.
const char* running_target = "";
unsigned long long running_number = 0;
const ByteVector* running_input = nullptr;

void OnDeath(int signal) {
  char line[160];
  const int size = std::snprintf(line, sizeof(line), "target %s died of signal %d: --only %llu\n",
                                 running_target, signal, running_number);
  (void)!write(STDERR_FILENO, line, static_cast<size_t>(size));
  if (running_input != nullptr) {
    std::snprintf(line, sizeof(line), "fuzz-%s.crash", running_target);
    const int file = open(line, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (file >= 0) (void)!write(file, running_input->data(), running_input->size());
  }
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

ByteVector ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file.good()) {
    std::fprintf(stderr, "cannot read %s\n", path.c_str());
    std::exit(2);
  }
  return ByteVector(std::istreambuf_iterator<char>(file), {});
}

// The files of the pack whose names end in `suffix`.
void ReadPack(const std::string& suffix, std::vector<ByteVector>* corpus) {
  const std::string folder = std::string(RSERVE_SOURCE_DIR) + "/tests/data/media/";
  const ByteVector pack = ReadFile(folder + "corpus.bin");
  const ByteVector table = ReadFile(folder + "corpus.txt");
  std::istringstream lines(std::string(table.begin(), table.end()));
  std::string line, name;
  while (std::getline(lines, line)) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream words(line);
    size_t offset = 0, size = 0;
    words >> name >> offset >> size;
    if (name.size() < suffix.size() ||
        name.compare(name.size() - suffix.size(), suffix.size(), suffix) != 0) {
      continue;
    }
    const auto begin = pack.begin() + static_cast<std::ptrdiff_t>(offset);
    corpus->emplace_back(begin, begin + static_cast<std::ptrdiff_t>(size));
  }
}

std::vector<ByteVector> ReadCorpus(const Target& target) {
  const std::string root = std::string(RSERVE_SOURCE_DIR) + "/tests/";
  std::vector<ByteVector> corpus;
  for (const std::string seed : target.seeds) {
    if (const size_t colon = seed.find(':'); colon != std::string::npos) {
      ReadPack(seed.substr(colon + 1), &corpus);
    } else {
      corpus.push_back(ReadFile(root + (seed.rfind("corpus/", 0) == 0 ? "fuzz/" : "data/") + seed));
    }
  }
  return corpus;
}

void WriteCorpus(const Target& target, const std::string& folder) {
  size_t number = 0;
  for (const ByteVector& input : ReadCorpus(target)) {
    std::ofstream file(folder + "/" + std::to_string(number++), std::ios::binary);
    file.write(reinterpret_cast<const char*>(input.data()),
               static_cast<std::streamsize>(input.size()));
  }
}

void WriteWords(const Target& target, const std::string& path) {
  std::ofstream file(path, std::ios::binary);
  for (const std::string word : target.words) {
    file << '"';
    for (const char c : word) {
      char hex[8];
      std::snprintf(hex, sizeof(hex), "\\x%02x", static_cast<unsigned>(static_cast<uint8_t>(c)));
      file << hex;
    }
    file << "\"\n";
  }
}

void RunOne(const Target& target, const ByteVector& input) {
  running_input = &input;
  alarm(kMaxSecondsARun);
  // A copy of exactly the input's size: a sanitizer sees a read past its end.
  const ByteVector exact(input);
  target.run(exact);
  running_input = nullptr;
}

int Main(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "--list") == 0) {
    for (const Target& target : Targets()) std::puts(target.name);
    return 0;
  }
  const Target* target = argc > 1 ? FindTarget(argv[1]) : nullptr;
  if (target == nullptr) {
    std::fprintf(stderr,
                 "usage: %s TARGET [--runs N | --seconds S | --only I] [--seed K] [--write FOLDER] "
                 "[--words FILE] [FILE...]\n",
                 argv[0]);
    return 2;
  }
  uint64_t runs = UINT64_MAX, only = UINT64_MAX, seed = 1;
  double seconds = 1e18;
  bool files = false;
  running_target = target->name;
  for (const int signal : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGALRM}) {
    std::signal(signal, OnDeath);
  }
  for (int i = 2; i < argc; ++i) {
    const auto value = [&] { return i + 1 < argc ? argv[++i] : "0"; };
    if (std::strcmp(argv[i], "--runs") == 0) {
      runs = std::strtoull(value(), nullptr, 10);
    } else if (std::strcmp(argv[i], "--seconds") == 0) {
      seconds = std::strtod(value(), nullptr);
    } else if (std::strcmp(argv[i], "--only") == 0) {
      only = std::strtoull(value(), nullptr, 10);
    } else if (std::strcmp(argv[i], "--seed") == 0) {
      seed = std::strtoull(value(), nullptr, 10);
    } else if (std::strcmp(argv[i], "--write") == 0) {
      WriteCorpus(*target, value());
      return 0;
    } else if (std::strcmp(argv[i], "--words") == 0) {
      WriteWords(*target, value());
      return 0;
    } else {
      files = true;
      RunOne(*target, ReadFile(argv[i]));
    }
  }
  if (files) return 0;
  if (runs == UINT64_MAX && seconds > 1e17 && only == UINT64_MAX) runs = 1000;
  const Mutator mutator(ReadCorpus(*target), {target->words.begin(), target->words.end()},
                        kMaxInputBytes);
  if (only != UINT64_MAX) {
    running_number = only;
    RunOne(*target, mutator.Make(seed, only));
    return 0;
  }
  const auto begin = std::chrono::steady_clock::now();
  double spent = 0;
  uint64_t number = 0;
  for (; number < runs && spent < seconds; ++number) {
    running_number = number;
    RunOne(*target, mutator.Make(seed, number));
    spent = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }
  std::printf("%-12s seed %llu: %llu inputs in %.1f s, none died\n", target->name,
              static_cast<unsigned long long>(seed), static_cast<unsigned long long>(number),
              spent);
  return 0;
}

}  // namespace
}  // namespace rserve::fuzz

int main(int argc, char** argv) { return rserve::fuzz::Main(argc, argv); }
