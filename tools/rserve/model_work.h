// The useful work in an encode and in a prefill: multiplications and additions that the model's
// definition asks for, whoever computes them and however.

#ifndef RSERVE_TOOLS_RSERVE_MODEL_WORK_H_
#define RSERVE_TOOLS_RSERVE_MODEL_WORK_H_

#include <cstdint>

#include "src/model/spec/image_plan.h"
#include "src/model/spec/model_config.h"

namespace rserve::tool {

// Floating-point operations of encoding one picture of this grid: patch embedding, blocks with
// attention inside windows or the whole picture, merger. Norms and activations are not counted.
double EncodeFlop(const model::ModelConfig& config, const model::Grid& grid);

// Of prefilling a prompt of `tokens`: the layers, causal attention, and the head for one token.
double PrefillFlop(const model::ModelConfig& config, int64_t tokens);

}  // namespace rserve::tool

#endif  // RSERVE_TOOLS_RSERVE_MODEL_WORK_H_
