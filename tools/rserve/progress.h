// A progress bar on stderr, drawn only when stderr is a terminal.

#ifndef RSERVE_TOOLS_RSERVE_PROGRESS_H_
#define RSERVE_TOOLS_RSERVE_PROGRESS_H_

#include <cstdint>
#include <string>

namespace rserve::tool {

// One thread draws. The bar erases itself when it is done or destroyed.
class Progress {
 public:
  explicit Progress(std::string label);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Redraws only when the whole per cent changed.
  void Update(int64_t done, int64_t total);
  void Finish();

 private:
  const std::string label_;
  const bool terminal_;
  int shown_percent_ = -1;
};

}  // namespace rserve::tool

#endif  // RSERVE_TOOLS_RSERVE_PROGRESS_H_
