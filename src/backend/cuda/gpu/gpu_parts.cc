#include "src/backend/cuda/gpu/gpu_parts.h"

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <type_traits>

#include "absl/strings/str_cat.h"

namespace rserve::cuda {

namespace {

constexpr unsigned kNeededVersion = 12050;  // the first driver with streams of green contexts

// The driver's functions, found at run time: the driver need not have them.
struct Driver {
  decltype(&cuDeviceGet) device_get = nullptr;
  decltype(&cuDeviceGetDevResource) get_resource = nullptr;
  decltype(&cuDevSmResourceSplitByCount) split = nullptr;
  decltype(&cuDevResourceGenerateDesc) describe = nullptr;
  decltype(&cuGreenCtxCreate) create = nullptr;
  decltype(&cuGreenCtxDestroy) destroy = nullptr;
  decltype(&cuGreenCtxStreamCreate) create_stream = nullptr;
};

template <typename Fn>
bool Find(const char* name, Fn* function) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
  if (cudaGetDriverEntryPointByVersion(name, &found, kNeededVersion, cudaEnableDefault, &result) !=
      cudaSuccess) {
    cudaGetLastError();
    return false;
  }
  *function = reinterpret_cast<Fn>(found);
  return result == cudaDriverEntryPointSuccess && found != nullptr;
}

absl::StatusOr<Driver> FindDriver() {
  Driver d;
  if (Find("cuDeviceGet", &d.device_get) && Find("cuDeviceGetDevResource", &d.get_resource) &&
      Find("cuDevSmResourceSplitByCount", &d.split) &&
      Find("cuDevResourceGenerateDesc", &d.describe) && Find("cuGreenCtxCreate", &d.create) &&
      Find("cuGreenCtxDestroy", &d.destroy) && Find("cuGreenCtxStreamCreate", &d.create_stream)) {
    return d;
  }
  return absl::UnavailableError(
      "the driver has no green contexts (12.5 is the first that has): a GPU cannot be cut in "
      "parts");
}

absl::Status Explain(const char* what, CUresult result) {
  return absl::UnavailableError(absl::StrCat("cutting the GPU, ", what, ": error ", result));
}

class Parts final : public GpuParts {
 public:
  explicit Parts(const Driver& driver) : driver_(driver) {}
  ~Parts() override {
    for (CUgreenCtx context : contexts_) {
      if (context != nullptr) driver_.destroy(context);
    }
  }

  absl::Status Init(int index, int32_t percent) {
    CUdevice device = 0;
    CUdevResource all = {}, first = {}, rest = {};
    CUresult result = driver_.device_get(&device, index);
    if (result == CUDA_SUCCESS) {
      result = driver_.get_resource(device, &all, CU_DEV_RESOURCE_TYPE_SM);
    }
    if (result != CUDA_SUCCESS) return Explain("its multiprocessors", result);
    const unsigned count = std::max(1u, all.sm.smCount * static_cast<unsigned>(percent) / 100);
    unsigned groups = 1;
    result = driver_.split(&first, &groups, &all, &rest, 0, count);
    if (result != CUDA_SUCCESS) return Explain("split", result);
    if (groups != 1 || rest.sm.smCount == 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          percent, " % of ", all.sm.smCount, " multiprocessors leave nothing for the rest"));
    }
    CUdevResource* const sides[] = {&first, &rest};
    for (size_t i = 0; i < 2; ++i) {
      CUdevResourceDesc description = nullptr;
      result = driver_.describe(&description, sides[i], 1);
      if (result == CUDA_SUCCESS) {
        result = driver_.create(&contexts_[i], description, device, CU_GREEN_CTX_DEFAULT_STREAM);
      }
      if (result != CUDA_SUCCESS) return Explain("green context", result);
    }
    return absl::OkStatus();
  }

  absl::StatusOr<StreamRef> CreateStream(bool rest) override {
    CUstream stream = nullptr;
    const CUresult result =
        driver_.create_stream(&stream, contexts_[rest ? 1 : 0], CU_STREAM_NON_BLOCKING, 0);
    if (result != CUDA_SUCCESS) return Explain("stream", result);
    return StreamRef{stream};
  }

 private:
  const Driver driver_;
  CUgreenCtx contexts_[2] = {};
};

}  // namespace

absl::StatusOr<std::unique_ptr<GpuParts>> CutGpu(int index, int32_t percent) {
  const absl::StatusOr<Driver> driver = FindDriver();
  if (!driver.ok()) return driver.status();
  auto parts = std::make_unique<Parts>(*driver);
  if (absl::Status s = parts->Init(index, percent); !s.ok()) return s;
  return parts;
}

}  // namespace rserve::cuda
