// For a program that is linked with the CUDA backend: one of its source files, with the one that
// defines rserve_cuda_library.

#include "src/backend/cuda/loader/cuda_library.h"

extern "C" const rserve::cuda::LibraryTable* rserve_cuda_library();

namespace rserve::cuda {

const LibraryTable* BuiltInCudaLibrary() { return rserve_cuda_library(); }

}  // namespace rserve::cuda
