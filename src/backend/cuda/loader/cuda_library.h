// The CUDA backend as a library of its own, opened at run time: a program that links rserve needs
// neither CUDA's libraries nor a driver, and learns why when it asks for `cuda` and cannot have it.

#ifndef RSERVE_SRC_BACKEND_CUDA_LOADER_CUDA_LIBRARY_H_
#define RSERVE_SRC_BACKEND_CUDA_LOADER_CUDA_LIBRARY_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "src/backend/cuda/cuda_model.h"

namespace rserve::cuda {

// What librserve_cuda.so offers; its one exported function returns the table. The library and the
// program that opens it are built together (`build` says from which sources and with which
// compiler): the functions pass C++ objects.
struct LibraryTable {
  const char* build = "";
  absl::StatusOr<std::unique_ptr<Device>> (*open_gpu)(int index) = nullptr;
  absl::StatusOr<std::shared_ptr<const CudaModel>> (*load)(const model::ModelConfig& config,
                                                           const model::Checkpoint& checkpoint,
                                                           const LoadOptions& options,
                                                           Device* device) = nullptr;
  absl::StatusOr<std::unique_ptr<backend::EncoderBackend>> (*make_encoder)(
      std::shared_ptr<const CudaModel> model, const EncoderLimits& limits,
      const RoleOptions& options) = nullptr;
  absl::StatusOr<std::unique_ptr<backend::StageBackend>> (*make_stage)(
      std::shared_ptr<const CudaModel> model, LayerRange layers, const KvGeometry& kv,
      const StageLimits& limits, const RoleOptions& options, StageLinks links) = nullptr;
  absl::StatusOr<std::vector<std::unique_ptr<Collective>>> (*make_collectives)(
      const std::vector<int>& gpus) = nullptr;
  absl::StatusOr<std::shared_ptr<HandOver>> (*make_hand_over)(
      LinkKind kind, Device* from, Device* to, const HandOverLimits& limits) = nullptr;
  absl::StatusOr<std::shared_ptr<EmbeddingStore>> (*make_embedding_store)(
      const std::vector<Device*>& devices, int64_t capacity, int64_t hidden_size) = nullptr;
};

// Of this build; the same string in both libraries.
inline constexpr char kLibraryBuild[] = RSERVE_VERSION " " __VERSION__;
inline constexpr char kLibraryEntry[] = "rserve_cuda_library";
using LibraryEntry = const LibraryTable* (*)();

// Opens the library by its path, or by its name where the system looks for libraries. Once opened
// it stays: objects of it may live anywhere. UNAVAILABLE with the system's reason when it is not
// there or needs what is not there (libcublasLt), and with both builds when it is of another one.
absl::StatusOr<const LibraryTable*> OpenCudaLibrary(const std::string& path);

}  // namespace rserve::cuda

#endif  // RSERVE_SRC_BACKEND_CUDA_LOADER_CUDA_LIBRARY_H_
