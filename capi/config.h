// From the C configuration to the options of a ModelEngine.

#ifndef RSERVE_CAPI_CONFIG_H_
#define RSERVE_CAPI_CONFIG_H_

#include "absl/status/statusor.h"
#include "rserve/cc/model_engine.h"
#include "rserve/rserve.h"

namespace rserve::capi {

// Log and progress are not looked at (callbacks.h). INVALID_ARGUMENT names the field.
absl::StatusOr<ModelEngineOptions> ReadConfig(const rserve_engine_config* config);

}  // namespace rserve::capi

#endif  // RSERVE_CAPI_CONFIG_H_
