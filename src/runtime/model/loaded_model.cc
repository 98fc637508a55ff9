#include "src/runtime/model/loaded_model.h"

#include <chrono>
#include <utility>

namespace rserve::runtime {

absl::StatusOr<LoadedModel> LoadModel(model::ModelFolder folder, const ModelEngineOptions& options,
                                      EngineConfig* config) {
  const auto begin = std::chrono::steady_clock::now();
  auto backend = LoadBackend(folder, options, config);
  if (!backend.ok()) return backend.status();
  LoadedModel loaded;
  loaded.config = std::move(folder.config);
  loaded.processor = folder.processor;
  loaded.tokenizer = std::move(folder.tokenizer);
  loaded.chat = std::move(folder.chat);
  loaded.backend = *std::move(backend);
  loaded.load_ns =
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - begin)
          .count();
  return loaded;
}

}  // namespace rserve::runtime
