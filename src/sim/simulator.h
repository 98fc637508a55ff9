// The simulator: an Orchestrator driven with virtual time.
//
// Actions become events at times that the cost model gives; events become inputs. The clock counts
// integer nanoseconds and events are taken by (time, sequence number), so a run depends on its
// configuration and its requests alone. Everything that is due at one time is one step.
//
// What is not modelled: decoding beyond the first token, clocks and heat, contention of transfers,
// two kernels at once on one device. With fitted costs actions slow each other down
// (shared_machine.h).

#ifndef RSERVE_SRC_SIM_SIMULATOR_H_
#define RSERVE_SRC_SIM_SIMULATOR_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "rserve/cc/orchestrator.h"
#include "src/sim/cost_model.h"
#include "src/sim/layout.h"
#include "src/sim/workload.h"

namespace rserve::sim {

struct SimConfig {
  std::string scheme = "rserve";  // for reports; `policy` is what counts
  ModelShape model;
  Hardware hardware;
  Calibration calibration;
  Layout layout;
  Policy policy;
  std::optional<FittedCosts> fitted;  // in the place of model, hardware and calibration
  // Host cores that prepare pictures ahead of the encoder. 0: the encoder's worker does it itself,
  // just before it encodes.
  int32_t media_lanes = 0;
  int32_t max_micro_batches = 0;  // in flight; 0: as many as stages
  int32_t max_passes = 8;         // of a device that hosts an encoder and a stage
  Role first = Role::kStage;
  int64_t embedding_bytes = INT64_MAX;  // budget
  int64_t kv_tokens = 0;                // 0: no limit
  double slo_s = 0;                     // of the report; 0: none
  // Every cost is multiplied by `cost_scale` from this time on (a test of what is learned).
  TimeNs scale_from_ns = kNever;
  double cost_scale = 1;
};

struct SimSpan {  // one action on one worker, for a trace
  enum class Kind : int32_t { kPrepare, kEncode, kStage } kind = Kind::kPrepare;
  int32_t worker = -1;  // -1: a media lane
  int32_t stage = -1;
  TimeNs begin_ns = 0;
  TimeNs end_ns = 0;
  int64_t tokens = 0;
  RequestId first_request = 0;
};

struct RequestOutcome {
  TimeNs arrival_ns = 0;
  TimeNs ttft_ns = -1;  // -1: refused or failed
};

struct SimResult {
  std::vector<RequestOutcome> requests;  // by arrival
  int64_t prompt_tokens = 0;             // of those with a first token
  TimeNs end_ns = 0;                     // the last first token
  std::vector<TimeNs> busy_ns;           // by worker
  int64_t failed = 0;
  int64_t peak_embedding_bytes = 0;
  int64_t peak_open_requests = 0;
  int64_t encode_batches = 0, encoded_tokens = 0, micro_batches = 0;
  int64_t events = 0;
  std::vector<SimSpan> spans;  // if asked for
};

struct SimOptions {
  bool spans = false;
  std::function<void(int64_t finished)> progress;  // now and then
};

// The configuration of the orchestrator that a run uses.
OrchestratorConfig MakeOrchestratorConfig(const SimConfig& config);

// From a request's arrival to the scheduler; where pictures are encoded at a request's turn, with
// their preparation.
TimeNs FrontEndNs(const SimConfig& config, const CostModel& cost,
                  absl::Span<const int64_t> unit_tokens);

// INVALID_ARGUMENT for a configuration that does not fit together; the workload's requests that can
// never run are counted in SimResult::failed.
absl::StatusOr<SimResult> Simulate(const SimConfig& config, RequestSource& source,
                                   const SimOptions& options = {});

}  // namespace rserve::sim

#endif  // RSERVE_SRC_SIM_SIMULATOR_H_
