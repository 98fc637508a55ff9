// Checks a micro-batch before a stage touches memory on its behalf.

#ifndef RSERVE_SRC_BACKEND_PLAN_STAGE_CHECK_H_
#define RSERVE_SRC_BACKEND_PLAN_STAGE_CHECK_H_

#include "absl/status/status.h"
#include "src/backend/backend.h"
#include "src/backend/plan/geometry.h"
#include "src/model/spec/model_config.h"

namespace rserve::backend {

struct StageRole {
  bool first = false;       // embeds tokens
  bool last = false;        // makes logits
  int64_t stored_rows = 0;  // of the store that slices may name; 0: there is none
  bool finds_likeliest = false;
};

// INVALID_ARGUMENT names the entry, the value and the limit.
absl::Status CheckStageWork(const StageWork& work, const model::TextConfig& config,
                            const KvGeometry& kv, StageRole role);

}  // namespace rserve::backend

#endif  // RSERVE_SRC_BACKEND_PLAN_STAGE_CHECK_H_
