#include "tools/rserve/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

namespace rserve::tool {

Progress::Progress(std::string label)
    : label_(std::move(label)), terminal_(isatty(STDERR_FILENO) != 0) {}

Progress::~Progress() { Finish(); }

void Progress::Update(int64_t done, int64_t total) {
  if (!terminal_ || total <= 0) return;
  const double fraction =
      static_cast<double>(std::clamp<int64_t>(done, 0, total)) / static_cast<double>(total);
  const int percent = static_cast<int>(100 * fraction);
  if (percent == shown_percent_) return;
  shown_percent_ = percent;
  constexpr int kCells = 40;
  const int filled = percent * kCells / 100;
  std::string bar(static_cast<size_t>(filled), '#');
  bar.resize(kCells, '.');
  std::fprintf(stderr, "\r%s [%s] %3d %%", label_.c_str(), bar.c_str(), percent);
  std::fflush(stderr);
}

void Progress::Finish() {
  if (!terminal_ || shown_percent_ < 0) return;
  std::fprintf(stderr, "\r\033[K");
  std::fflush(stderr);
  shown_percent_ = -1;
}

}  // namespace rserve::tool
