// What each action costs: pure functions of sizes, of a model's shape, of the hardware and of a
// few constants (the calibration). The scheduler never sees any of it; it sees completions.
//
//   stage   max(linear operations / (peak x mfu_linear), weights / bandwidth) x share of layers
//           + attention operations / (peak x mfu_attention) x share of layers
//           + micro_batch_ms (+ handover from the stage before; on stage 0 what a request costs)
//   TP      the same / ranks + two all-reduces a layer + tp_micro_batch_ms
//   encode  operations / (peak x mfu_vision) + encode_batch_ms (+ host work, if it is serial)
//
// Engines that encode at a request's turn (gLLM, vLLM) prepare its pictures in their front end, one
// core a request, before the request is queued: the latency is the same, no device waits for it.

#ifndef RSERVE_SRC_SIM_COST_MODEL_H_
#define RSERVE_SRC_SIM_COST_MODEL_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "rserve/cc/request_plan.h"
#include "src/sim/fit.h"
#include "src/sim/model_shape.h"

namespace rserve::sim {

struct Hardware {
  std::string name;
  double peak_tflops = 0;          // dense, 16 bit
  double memory_gb_s = 0;          // bandwidth of the device's memory
  double memory_gb = 0;            // its size
  double point_to_point_gb_s = 0;  // activations from stage to stage
  double all_reduce_bus_gb_s = 0;  // of the ranks of a tensor-parallel stage
  double embedding_gb_s = 25;      // embeddings from the encoder's device to the stage's
  double handover_us = 20;         // latency of one hand-over of activations
  double all_reduce_latency_us = 15;
};

// "h100", "a100-40g", "h200".
absl::StatusOr<Hardware> FindHardware(std::string_view name);
const std::vector<Hardware>& HardwarePresets();

// Every fitted or assumed number. Calibration "a" fits the paper's plateaus with a cost for each
// request on stage 0; "b" needs no such cost and is the default.
struct Calibration {
  std::string name = "b";
  double mfu_linear = 0.475;
  double mfu_attention = 0.45;
  double mfu_vision = 0.40;
  double micro_batch_ms = 8;         // host time of each micro-batch on each stage
  double request_ms = 0;             // stage 0, once a request
  double received_us_per_token = 0;  // stage 0, for each embedding row that came from elsewhere
  double encode_batch_ms = 5;        // launch of one encode batch
  double host_ms_per_item = 3;       // decode, resize, patches of one item ...
  double host_us_per_token = 90;     // ... and for each of its tokens
  double transfer_ms = 3;            // latency of one embedding transfer
  double front_end_ms = 20;          // from arrival to the scheduler
  double tp_micro_batch_ms = 12;     // host time of a micro-batch on a tensor-parallel stage
};

absl::StatusOr<Calibration> FindCalibration(std::string_view name);  // "a", "b"

// One entry of a micro-batch.
struct ChunkWork {
  int64_t tokens = 0;
  int64_t past = 0;            // tokens of the request before them
  int64_t embedding_rows = 0;  // tokens of it that read an embedding
  bool first = false;          // the request's first chunk
  bool last = false;           // ends the prompt
};

struct StageCost {
  int64_t layers = 0;
  int32_t ranks = 1;  // tensor parallel
  int32_t stage = 0;
};

class CostModel {
 public:
  CostModel(ModelShape model, Hardware hardware, Calibration calibration,
            std::optional<FittedCosts> fitted = std::nullopt);

  // `embeddings_local`: the encoder writes them on this stage's device.
  TimeNs StageNs(const StageCost& stage, absl::Span<const ChunkWork> chunks,
                 bool embeddings_local) const;
  // Of `rows` x `width` 16-bit numbers; a layer has two.
  TimeNs AllReduceNs(int64_t rows, int64_t width, int32_t ranks) const;
  TimeNs HandoverNs(int64_t tokens) const;
  // One batch; the tower is split over `ranks`, with two all-reduces a block. Items by their
  // tokens.
  TimeNs EncodeNs(absl::Span<const int64_t> item_tokens, int32_t ranks) const;
  // Preparation of one item on a host core.
  TimeNs HostNs(int64_t item_tokens) const;
  TimeNs TransferNs(int64_t tokens) const;
  TimeNs FrontEndNs() const;

  const ModelShape& model() const { return model_; }
  const Hardware& hardware() const { return hardware_; }
  const Calibration& calibration() const { return calibration_; }

 private:
  const ModelShape model_;
  const Hardware hardware_;
  const Calibration calibration_;
  const std::optional<FittedCosts> fitted_;  // in the place of all of these
};

}  // namespace rserve::sim

#endif  // RSERVE_SRC_SIM_COST_MODEL_H_
