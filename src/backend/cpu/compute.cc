#include "src/backend/cpu/compute.h"

#include <algorithm>
#include <atomic>

namespace rserve::cpu {

Compute::Compute(const kernels::KernelTable& isa, ThreadPool* pool)
    : isa_(isa),
      own_pool_(pool == nullptr ? std::make_unique<ThreadPool>(1, std::vector<int>{}) : nullptr),
      pool_(pool == nullptr ? own_pool_.get() : pool),
      // Rounded to a cache line, so that threads do not share one.
      scratch_floats_(
          (std::max(kernels::GemmScratchFloats(isa), kernels::AttentionScratchFloats(isa)) + 15) /
          16 * 16) {}

void Compute::Tasks(int64_t tasks, absl::FunctionRef<void(int64_t, float*)> fn) {
  const int64_t workers = std::min<int64_t>(pool_->threads(), tasks);
  float* scratch = scratch_.Reserve(pool_->threads() * scratch_floats_);
  std::atomic<int64_t> next{0};
  pool_->ParallelFor(workers, [&](int64_t worker) {
    for (;;) {
      const int64_t task = next.fetch_add(1, std::memory_order_relaxed);
      if (task >= tasks) return;
      fn(task, scratch + worker * scratch_floats_);
    }
  });
}

void Compute::Product(kernels::GemmArgs args) {
  if (args.m == 0) return;
  if (args.weight.type == kernels::WeightType::kInt8) {
    // Once for all tiles.
    const int64_t words = kernels::Int8Words(args.weight.k);
    auto* rows = reinterpret_cast<int32_t*>(int8_words_.Reserve(args.m * words));
    float* scales = int8_scales_.Reserve(args.m);
    Rows(args.m, [&](int64_t begin, int64_t end) {
      kernels::QuantizeRows(isa_, args, begin, end, rows, scales);
    });
    args.int8_rows = {rows, scales};
  }
  const kernels::GemmTiling tiling = kernels::TileGemm(isa_, args, pool_->threads());
  Tasks(tiling.tiles(), [&](int64_t tile, float* scratch) {
    kernels::GemmTile(isa_, args, tiling, tile, scratch);
  });
}

void Compute::Rows(int64_t rows, absl::FunctionRef<void(int64_t, int64_t)> fn) {
  // Small pieces balance the threads; one row is some microseconds of work at most.
  constexpr int64_t kPiece = 16;
  pool_->ParallelFor((rows + kPiece - 1) / kPiece, [&](int64_t piece) {
    fn(piece * kPiece, std::min(rows, (piece + 1) * kPiece));
  });
}

void Compute::Norm(const kernels::RmsNormArgs& args, int64_t rows) {
  Rows(rows, [&](int64_t begin, int64_t end) { kernels::RmsNorm(isa_, args, begin, end); });
}

}  // namespace rserve::cpu
