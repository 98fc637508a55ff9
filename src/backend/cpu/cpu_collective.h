// What the ranks of a CPU stage do together: threads meet and add their parts up.

#ifndef RSERVE_SRC_BACKEND_CPU_CPU_COLLECTIVE_H_
#define RSERVE_SRC_BACKEND_CPU_CPU_COLLECTIVE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace rserve::cpu {

// One rank's end; used by its thread. Every rank makes the same calls in the same order.
class CpuCollective {
 public:
  virtual ~CpuCollective() = default;

  // Waits until all ranks are here with their parts, and gives all parts, by rank. They stay as
  // they are until Leave. UNAVAILABLE after Abort.
  virtual absl::StatusOr<absl::Span<const float* const>> Join(const float* part) = 0;
  // Waits until all ranks have read what they wanted. UNAVAILABLE after Abort.
  virtual absl::Status Leave() = 0;
  // Ends what waits for ranks that will not come, on all ranks and for good. Any thread.
  virtual void Abort() = 0;
};

std::vector<std::unique_ptr<CpuCollective>> MakeCpuCollectives(int32_t ranks);

}  // namespace rserve::cpu

#endif  // RSERVE_SRC_BACKEND_CPU_CPU_COLLECTIVE_H_
