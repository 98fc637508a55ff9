#include "src/runtime/model/loaded_model.h"

#include <chrono>
#include <utility>

#include "src/backend/cpu/thread_pool.h"

namespace rserve::runtime {

absl::StatusOr<LoadedModel> LoadModel(
    model::ModelFolder folder, int32_t threads, cpu::WeightFormat format,
    const std::function<void(int64_t done_bytes, int64_t total_bytes)>& progress) {
  const auto begin = std::chrono::steady_clock::now();
  cpu::ThreadPool pool(threads, {});
  cpu::LoadOptions options;
  options.pool = &pool;
  options.progress = progress;
  options.weights = format;
  auto weights = cpu::CpuModel::Load(folder.config, *folder.checkpoint, options);
  if (!weights.ok()) return weights.status();
  LoadedModel loaded;
  loaded.config = std::move(folder.config);
  loaded.processor = folder.processor;
  loaded.tokenizer = std::move(folder.tokenizer);
  loaded.chat = std::move(folder.chat);
  loaded.weights = *std::move(weights);
  loaded.load_ns =
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - begin)
          .count();
  return loaded;
}

}  // namespace rserve::runtime
