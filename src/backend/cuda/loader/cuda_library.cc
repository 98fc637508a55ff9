#include "src/backend/cuda/loader/cuda_library.h"

#include <dlfcn.h>

#include <cstring>

#include "absl/strings/str_cat.h"

namespace rserve::cuda {

absl::StatusOr<const LibraryTable*> OpenCudaLibrary(const std::string& path) {
#if defined(RSERVE_STATIC_PROGRAM)
  return absl::UnavailableError(
      absl::StrCat("the CUDA backend ", path,
                   " is not opened: this program has a C++ runtime of its own, which cannot catch "
                   "what a library throws (RSERVE_STATIC_DEPENDENCIES)"));
#else
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return absl::UnavailableError(absl::StrCat("the CUDA backend cannot be opened: ", dlerror()));
  }
  const auto entry = reinterpret_cast<LibraryEntry>(dlsym(library, kLibraryEntry));
  if (entry == nullptr) {
    dlclose(library);
    return absl::UnavailableError(
        absl::StrCat(path, " is no CUDA backend: it has no ", kLibraryEntry));
  }
  const LibraryTable* table = entry();
  if (std::strcmp(table->build, kLibraryBuild) != 0) {
    const std::string build = table->build;
    dlclose(library);
    return absl::UnavailableError(absl::StrCat("the CUDA backend ", path, " is of the build ",
                                               build, ", this program of ", kLibraryBuild));
  }
  return table;
#endif
}

}  // namespace rserve::cuda
