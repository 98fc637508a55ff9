// From the C configuration and requests of host.h to those of the C++ API.

#ifndef RSERVE_CAPI_HOST_CONFIG_H_
#define RSERVE_CAPI_HOST_CONFIG_H_

#include <cstddef>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rserve/cc/orchestrator.h"
#include "rserve/host.h"

namespace rserve::capi {

// INVALID_ARGUMENT names the field.
absl::StatusOr<OrchestratorConfig> ReadHostConfig(const rserve_host_config* config);

struct HostRequest {
  RequestPlan plan;
  uint64_t user_data = 0;
  bool discard_detail = false;
};
// Sizes and ranges are the core's to judge (ValidatePlan).
absl::StatusOr<HostRequest> ReadHostRequest(const rserve_host_request* request);

// A status that a host gave, or INVALID_ARGUMENT for a number that is none.
absl::Status ReadStatus(rserve_status_t code, const char* message, size_t message_length,
                        absl::Status* status);

}  // namespace rserve::capi

#endif  // RSERVE_CAPI_HOST_CONFIG_H_
