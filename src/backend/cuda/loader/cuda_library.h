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
//
// Each side may have a copy of its own of Abseil and of the C++ library, of which one or both are
// linked statically. So nothing may pass whose meaning hangs on a copy's addresses: no Abseil hash
// containers (a hash is seeded by an address), no Cord or payload of a Status, no absl::Mutex.
// Statuses, strings, vectors, smart pointers, callables and virtual calls are as good on the other
// side, and exceptions are told apart by their types' names. Of the unwinder (libgcc_s) there must
// be one: a frame of a program with a copy of its own ends the process when it is to catch what
// another copy has thrown.
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

// The backend that this program was linked with (built_in.cc), or null: it has none.
const LibraryTable* BuiltInCudaLibrary();

// Opens the library by its path, or by its name where the system looks for libraries. Once opened
// it stays: objects of it may live anywhere. UNAVAILABLE with the system's reason when it is not
// there or needs what is not there (libcublasLt), with both builds when it is of another one, and
// always in a program of RSERVE_STATIC_DEPENDENCIES.
absl::StatusOr<const LibraryTable*> OpenCudaLibrary(const std::string& path);

}  // namespace rserve::cuda

#endif  // RSERVE_SRC_BACKEND_CUDA_LOADER_CUDA_LIBRARY_H_
