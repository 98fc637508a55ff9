#include "tests/backend_cuda/emulated_library.h"

#include <mutex>
#include <new>
#include <set>

#include "absl/strings/str_cat.h"
#include "src/backend/cuda/host/host_collective.h"
#include "src/backend/cuda/host/host_device.h"
#include "src/backend/cuda/host/host_link.h"
#include "src/backend/cuda/loader/cuda_library.h"

namespace rserve::cuda {
namespace {

constexpr int kDevices = 16;

class EmulatedDevice;
std::mutex mutex;
std::set<EmulatedDevice*> open_devices;  // by `mutex`

class EmulatedDevice final : public HostDevice {
 public:
  explicit EmulatedDevice(const HostDeviceOptions& options) : HostDevice(options) {
    std::lock_guard<std::mutex> lock(mutex);
    open_devices.insert(this);
  }
  ~EmulatedDevice() override {
    std::lock_guard<std::mutex> lock(mutex);
    open_devices.erase(this);
  }
};

absl::StatusOr<std::unique_ptr<Device>> OpenEmulated(int index) {
  if (index < 0 || index >= kDevices) {
    return absl::UnavailableError(
        absl::StrCat("there is no GPU ", index, "; ", kDevices, " are emulated"));
  }
  HostDeviceOptions options;
  options.seed = static_cast<uint64_t>(index) + 1;
  options.background = true;
  options.number = index;
  return std::unique_ptr<Device>(std::make_unique<EmulatedDevice>(options));
}

absl::StatusOr<std::vector<std::unique_ptr<Collective>>> MakeEmulatedCollectives(
    const std::vector<int>& gpus) {
  return MakeHostCollectives(static_cast<int>(gpus.size()));
}

void LoseAfter(int number, int64_t operations) {
  std::lock_guard<std::mutex> lock(mutex);
  for (auto* device : open_devices) {
    if (number < 0 || device->number() == number) device->LoseAfter(operations);
  }
}

void RunOutOfMemory() { throw std::bad_alloc(); }

}  // namespace
}  // namespace rserve::cuda

extern "C" __attribute__((visibility("default"))) const rserve::cuda::LibraryTable*
rserve_cuda_library() {
  static constexpr rserve::cuda::LibraryTable kTable = {
      rserve::cuda::kLibraryBuild,     &rserve::cuda::OpenEmulated,
      &rserve::cuda::CudaModel::Load,  &rserve::cuda::MakeCudaEncoder,
      &rserve::cuda::MakeCudaStage,    &rserve::cuda::MakeEmulatedCollectives,
      &rserve::cuda::MakeHostHandOver, &rserve::cuda::EmbeddingStore::Make};
  return &kTable;
}

extern "C" __attribute__((visibility("default"))) rserve::testing::EmulatedFunctions
rserve_emulated_functions() {
  return {&rserve::cuda::LoseAfter, &rserve::cuda::RunOutOfMemory};
}
