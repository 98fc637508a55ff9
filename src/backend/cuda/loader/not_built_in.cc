// The library's own answer, for all programs that do not define one.

#include "src/backend/cuda/loader/cuda_library.h"

namespace rserve::cuda {

const LibraryTable* BuiltInCudaLibrary() { return nullptr; }

}  // namespace rserve::cuda
