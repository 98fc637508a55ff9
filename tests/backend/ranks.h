// Stages of several tensor-parallel ranks, put together as an engine does.

#ifndef RSERVE_TESTS_BACKEND_RANKS_H_
#define RSERVE_TESTS_BACKEND_RANKS_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "src/backend/plan/geometry.h"
#include "src/backend/plan/parallel_stage.h"

namespace rserve::testing {

// A stage for each part between `cuts`, of `ranks` ranks. `collectives()` makes the ranks' ends for
// one stage; `make(stage, layers, rank, end)` one rank.
template <typename MakeEnds, typename MakeRank>
std::vector<std::unique_ptr<backend::StageBackend>> MakeRanks(int32_t num_layers,
                                                              std::vector<int32_t> cuts, int ranks,
                                                              int64_t hidden_floats, int32_t depth,
                                                              MakeEnds collectives, MakeRank make) {
  cuts.push_back(num_layers);
  std::vector<std::unique_ptr<backend::StageBackend>> stages;
  int32_t begin = 0;
  for (size_t s = 0; s < cuts.size(); ++s) {
    auto ends = collectives();
    auto* first = ends[0].get();
    std::vector<std::unique_ptr<backend::StageBackend>> stage;
    for (int32_t rank = 0; rank < ranks; ++rank) {
      stage.push_back(make(s, backend::LayerRange{begin, cuts[s]}, rank,
                           std::move(ends[static_cast<size_t>(rank)])));
    }
    stages.push_back(backend::MakeParallelStage(std::move(stage), hidden_floats, depth,
                                                [first] { first->Abort(); }));
    begin = cuts[s];
  }
  return stages;
}

}  // namespace rserve::testing

#endif  // RSERVE_TESTS_BACKEND_RANKS_H_
