// What this process keeps in memory, as the kernel counts it.

#ifndef RSERVE_TOOLS_RSERVE_PROCESS_MEMORY_H_
#define RSERVE_TOOLS_RSERVE_PROCESS_MEMORY_H_

#include <cstdint>

namespace rserve::tool {

// The most resident memory since the process began or since the last reset, mapped files included;
// 0: not known.
int64_t PeakRssBytes();
// Sets the peak back to what is resident now, where the kernel lets a process do that.
void ResetPeakRss();

}  // namespace rserve::tool

#endif  // RSERVE_TOOLS_RSERVE_PROCESS_MEMORY_H_
