// Work for a host, from the C++ API's structs to those of host.h.

#ifndef RSERVE_CAPI_HOST_WORK_H_
#define RSERVE_CAPI_HOST_WORK_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "rserve/cc/orchestrator.h"
#include "rserve/host.h"

namespace rserve::capi {

inline rserve_unit_ref MakeUnitRef(UnitRef unit) { return {unit.request, unit.unit, 0}; }

// The entries of one micro-batch with all that they point to. Reusable: keeps its memory.
class StageEntries {
 public:
  void Clear();
  void Add(const BatchEntry& chunk, absl::Span<const int32_t> kv_blocks,
           absl::Span<const EmbeddingSlice> slices, bool last_chunk, bool ended);
  // Valid until Clear or Add; points into this object.
  const std::vector<rserve_stage_entry>& Finish();

 private:
  std::vector<rserve_stage_entry> entries_;
  std::vector<int32_t> kv_blocks_;
  std::vector<rserve_embedding_slice> slices_;
};

}  // namespace rserve::capi

#endif  // RSERVE_CAPI_HOST_WORK_H_
