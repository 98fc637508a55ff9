// One stage of several tensor-parallel ranks behind the interface of one.

#ifndef RSERVE_SRC_BACKEND_PLAN_PARALLEL_STAGE_H_
#define RSERVE_SRC_BACKEND_PLAN_PARALLEL_STAGE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "src/backend/backend.h"

namespace rserve::backend {

// `ranks`: the ranks' stages in order, made with one communicator. Each runs on a thread of its
// own; the stage is done when all are. Every rank gets the whole work; each writes its part of the
// logits, and hidden states are the first rank's. The first error ends the stage: `abort` is
// called, once, so that no rank waits for one that will not come, and every later call returns that
// error. Work that the ranks refuse before they begin (INVALID_ARGUMENT, RESOURCE_EXHAUSTED) ends
// nothing.
//
// `hidden_floats`: of the largest micro-batch, max_tokens * hidden_size; 0 where ranks write no
// hidden states to the caller's memory (each hands its own over). `depth`: work that may be started
// and not done; more waits for the oldest.
std::unique_ptr<StageBackend> MakeParallelStage(std::vector<std::unique_ptr<StageBackend>> ranks,
                                                int64_t hidden_floats, int32_t depth,
                                                std::function<void()> abort);

}  // namespace rserve::backend

#endif  // RSERVE_SRC_BACKEND_PLAN_PARALLEL_STAGE_H_
