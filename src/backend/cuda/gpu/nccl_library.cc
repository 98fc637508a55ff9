#include "src/backend/cuda/gpu/nccl_library.h"

#include <dlfcn.h>

#include <type_traits>

#include "absl/strings/str_cat.h"

namespace rserve::cuda {

namespace {

constexpr char kNcclLibrary[] = "libnccl.so.2";

}  // namespace

absl::StatusOr<Nccl> OpenNccl() {
  void* library = dlopen(kNcclLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return absl::UnavailableError(
        absl::StrCat("several GPUs in a stage need NCCL, which cannot be opened: ", dlerror()));
  }
  Nccl nccl;
  bool all = true;
  const auto find = [&](const char* name, auto* function) {
    *function = reinterpret_cast<std::remove_pointer_t<decltype(function)>>(dlsym(library, name));
    all = all && *function != nullptr;
  };
  find("ncclCommInitAll", &nccl.init_all);
  find("ncclAllReduce", &nccl.all_reduce);
  find("ncclSend", &nccl.send);
  find("ncclRecv", &nccl.receive);
  find("ncclGroupStart", &nccl.group_start);
  find("ncclGroupEnd", &nccl.group_end);
  find("ncclCommDestroy", &nccl.destroy);
  find("ncclCommAbort", &nccl.abort);
  find("ncclGetErrorString", &nccl.explain);
  if (!all) {
    return absl::UnavailableError(absl::StrCat(kNcclLibrary, " lacks a function that is needed"));
  }
  return nccl;
}

absl::StatusOr<std::vector<ncclComm_t>> Connect(const Nccl& nccl, const std::vector<int>& gpus) {
  std::vector<ncclComm_t> comms(gpus.size());
  if (const ncclResult_t result =
          nccl.init_all(comms.data(), static_cast<int>(gpus.size()), gpus.data());
      result != ncclSuccess) {
    return absl::UnavailableError(
        absl::StrCat("NCCL over ", gpus.size(), " GPUs: ", nccl.explain(result)));
  }
  return comms;
}

absl::Status Explain(const Nccl& nccl, const char* what, ncclResult_t result) {
  if (result == ncclSuccess) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("NCCL ", what, ": ", nccl.explain(result)));
}

}  // namespace rserve::cuda
