// From logits to a token.

#ifndef RSERVE_SRC_RUNTIME_MODEL_SAMPLER_H_
#define RSERVE_SRC_RUNTIME_MODEL_SAMPLER_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "rserve/cc/executor.h"
#include "rserve/cc/model_engine.h"
#include "src/backend/backend.h"

namespace rserve::runtime {

// INVALID_ARGUMENT names the field: temperature below 0 or not finite, top_p outside (0, 1].
absl::Status ValidateSampling(const Sampling& sampling);

// The chosen token, and its log-probability under the model itself (before temperature and top_p).
// Sums in double, in id order, so the same logits give the same bits. INTERNAL when a logit is NaN
// or there is none. Pure.
absl::StatusOr<FirstToken> SampleToken(absl::Span<const float> logits, const Sampling& sampling);

// Whether the largest logit is taken, so that a backend may choose.
inline bool TakesLikeliest(const Sampling& sampling) { return !(sampling.temperature > 0); }

// What a backend has chosen: as SampleToken gives it, errors included, but for how the probability
// is summed.
absl::StatusOr<FirstToken> TakeLikeliest(const backend::Likeliest& likeliest);

}  // namespace rserve::runtime

#endif  // RSERVE_SRC_RUNTIME_MODEL_SAMPLER_H_
