// The one exported function of librserve_cuda.so.

#include "src/backend/cuda/gpu/gpu_collective.h"
#include "src/backend/cuda/gpu/gpu_device.h"
#include "src/backend/cuda/gpu/gpu_link.h"
#include "src/backend/cuda/loader/cuda_library.h"

extern "C" __attribute__((visibility("default"))) const rserve::cuda::LibraryTable*
rserve_cuda_library() {
  static constexpr rserve::cuda::LibraryTable kTable = {
      rserve::cuda::kLibraryBuild,    &rserve::cuda::OpenGpu,
      &rserve::cuda::CudaModel::Load, &rserve::cuda::MakeCudaEncoder,
      &rserve::cuda::MakeCudaStage,   &rserve::cuda::MakeGpuCollectives,
      &rserve::cuda::MakeGpuHandOver, &rserve::cuda::EmbeddingStore::Make};
  return &kTable;
}
