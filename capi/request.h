// From the C request to a ModelRequest.

#ifndef RSERVE_CAPI_REQUEST_H_
#define RSERVE_CAPI_REQUEST_H_

#include "absl/status/statusor.h"
#include "rserve/cc/model_engine.h"
#include "rserve/rserve.h"

namespace rserve::capi {

// Copies text and tokens; pictures still point to the host's memory, as ModelRequest wants it. The
// deadline counts from this call. A chat is rendered by the engine. INVALID_ARGUMENT names part and
// field.
absl::StatusOr<ModelRequest> ReadRequest(const ModelEngine& engine, const rserve_request* request);

}  // namespace rserve::capi

#endif  // RSERVE_CAPI_REQUEST_H_
