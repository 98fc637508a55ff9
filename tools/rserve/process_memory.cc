#include "tools/rserve/process_memory.h"

#include <cstdio>
#include <cstring>

namespace rserve::tool {

void ResetPeakRss() {
  // Writing 5 is the request for this.
  if (std::FILE* file = std::fopen("/proc/self/clear_refs", "w")) {
    std::fputs("5", file);
    std::fclose(file);
  }
}

int64_t PeakRssBytes() {
  std::FILE* file = std::fopen("/proc/self/status", "r");
  if (file == nullptr) return 0;
  char line[256];
  long long kib = 0;
  while (std::fgets(line, sizeof(line), file) != nullptr) {
    if (std::strncmp(line, "VmHWM:", 6) == 0) std::sscanf(line + 6, "%lld", &kib);
  }
  std::fclose(file);
  return kib * 1024;
}

}  // namespace rserve::tool
