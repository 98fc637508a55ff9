#include "src/runtime/model/placement.h"

#include <sched.h>

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "rserve/cc/policy.h"

namespace rserve::runtime {

namespace {

constexpr int32_t kMaxThreads = 1024;
constexpr int32_t kMaxWorkers = 256;
// Actions that a worker may have in hand: a GPU finds its next one queued when one ends.
constexpr int32_t kCudaDepth = 2;

// Part `index` of `total` things dealt out in `parts` contiguous parts, the first ones one larger.
struct Part {
  int32_t begin = 0;
  int32_t size = 0;
};
Part EvenPart(int32_t total, int32_t parts, int32_t index) {
  const int32_t base = total / parts;
  const int32_t extra = total % parts;
  return {index * base + std::min(index, extra), base + (index < extra ? 1 : 0)};
}

absl::Status WrongLength(const std::string& option, size_t length, size_t workers) {
  return absl::InvalidArgumentError(
      absl::StrCat(option, " has ", length, " entries for ", workers, " workers"));
}

absl::Status CheckThreads(const std::string& option, int64_t threads) {
  if (threads >= 1 && threads <= kMaxThreads) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(option, " is ", threads, ", must be between 1 and ", kMaxThreads));
}

// Deals cores (or, when there are too few or none may be pinned, only threads) to the workers.
absl::Status DealCores(const ModelEngineOptions& options, absl::Span<const int> usable,
                       std::vector<WorkerInfo>* workers) {
  const auto num_workers = static_cast<int32_t>(workers->size());
  const auto num_cores = static_cast<int32_t>(usable.size());
  const int32_t threads = options.threads == 0 ? num_cores : options.threads;
  if (absl::Status status = CheckThreads("threads", threads); !status.ok()) return status;
  const bool pin = options.pin_threads && threads >= num_workers && threads <= num_cores;
  for (int32_t i = 0; i < num_workers; ++i) {
    WorkerInfo& worker = (*workers)[static_cast<size_t>(i)];
    const Part part = EvenPart(threads, num_workers, i);
    worker.threads = std::max(1, part.size);
    if (!pin) continue;
    const absl::Span<const int> cores =
        usable.subspan(static_cast<size_t>(part.begin), static_cast<size_t>(part.size));
    worker.cores.assign(cores.begin(), cores.end());
  }
  return absl::OkStatus();
}

absl::Status TakeCores(const ModelEngineOptions& options, absl::Span<const int> usable,
                       std::vector<WorkerInfo>* workers) {
  if (options.worker_cores.size() != workers->size()) {
    return WrongLength("worker_cores", options.worker_cores.size(), workers->size());
  }
  for (size_t i = 0; i < workers->size(); ++i) {
    for (const int core : options.worker_cores[i]) {
      if (std::find(usable.begin(), usable.end(), core) != usable.end()) continue;
      return absl::InvalidArgumentError(absl::StrCat("worker_cores[", i, "] names core ", core,
                                                     ", which this process may not use"));
    }
    (*workers)[i].cores = options.worker_cores[i];
    (*workers)[i].threads = std::max<int32_t>(1, static_cast<int32_t>((*workers)[i].cores.size()));
  }
  return absl::OkStatus();
}

// Deals devices to ranks and encoders.
absl::Status TakeDevices(const ModelEngineOptions& options, std::vector<WorkerInfo>* workers) {
  if (options.backend != Backend::kCuda) {
    if (options.devices.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("devices has ", options.devices.size(), " entries; backend ",
                     std::string(BackendName(options.backend)), " has no devices"));
  }
  const auto ranks = static_cast<size_t>(options.tensor_parallel);
  size_t places = 0;
  for (const WorkerInfo& worker : *workers) places += worker.spec.stage >= 0 ? ranks : 1;
  std::vector<int32_t> devices = options.devices;
  if (devices.empty()) devices.push_back(0);
  if (devices.size() == 1) devices.resize(places, devices[0]);
  if (devices.size() != places) {
    return absl::InvalidArgumentError(absl::StrCat("devices has ", devices.size(), " entries for ",
                                                   places, " ranks of stages and encoders"));
  }
  auto next = devices.begin();
  for (WorkerInfo& worker : *workers) {
    const auto count = static_cast<ptrdiff_t>(worker.spec.stage >= 0 ? ranks : 1);
    worker.devices.assign(next, next + count);
    next += count;
    std::vector<int32_t> sorted = worker.devices;
    std::sort(sorted.begin(), sorted.end());
    if (sorted.front() < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("devices holds ", sorted.front(), ", GPU numbers begin at 0"));
    }
    const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
    if (twice != sorted.end()) {
      return absl::InvalidArgumentError(absl::StrCat("devices puts two of a stage's ", ranks,
                                                     " ranks (tensor_parallel) on GPU ", *twice,
                                                     "; each needs its own"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<int> UsableCores() {
  std::vector<int> cores;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0) {
    for (int core = 0; core < CPU_SETSIZE; ++core) {
      if (CPU_ISSET(static_cast<size_t>(core), &set)) cores.push_back(core);
    }
  }
  if (cores.empty()) {  // more cores than the set holds
    cores.resize(std::max(1u, std::thread::hardware_concurrency()));
    std::iota(cores.begin(), cores.end(), 0);
  }
  return cores;
}

absl::StatusOr<std::vector<StageLayers>> SplitLayers(const ModelEngineOptions& options,
                                                     int32_t num_layers) {
  if (options.stages < 1 || options.stages > num_layers) {
    return absl::InvalidArgumentError(absl::StrCat("stages is ", options.stages,
                                                   ", must be between 1 and the model's ",
                                                   num_layers, " layers"));
  }
  const auto stages = static_cast<size_t>(options.stages);
  if (!options.stage_layers.empty() && options.stage_layers.size() != stages) {
    return absl::InvalidArgumentError(absl::StrCat("stage_layers has ", options.stage_layers.size(),
                                                   " entries for ", stages, " stages"));
  }
  std::vector<StageLayers> split(stages);
  int64_t first = 0;
  for (size_t i = 0; i < stages; ++i) {
    const int32_t count = options.stage_layers.empty()
                              ? EvenPart(num_layers, options.stages, static_cast<int32_t>(i)).size
                              : options.stage_layers[i];
    if (count < 1 || first + count > num_layers) {
      return absl::InvalidArgumentError(absl::StrCat("stage_layers[", i, "] is ", count, " with ",
                                                     first, " of ", num_layers,
                                                     " layers before it"));
    }
    split[i] = {static_cast<int32_t>(first), count};
    first += count;
  }
  if (first != num_layers) {
    return absl::InvalidArgumentError(
        absl::StrCat("stage_layers sums to ", first, ", the model has ", num_layers, " layers"));
  }
  return split;
}

absl::StatusOr<std::vector<WorkerInfo>> PlaceWorkers(const ModelEngineOptions& options,
                                                     absl::Span<const StageLayers> layers,
                                                     absl::Span<const int> usable) {
  const bool shared = options.scheme == Scheme::kAdaptive && options.encoders == kSharedEncoder;
  const bool own_encoder = options.scheme != Scheme::kColocated && !shared;
  if (own_encoder && (options.encoders < 0 || options.encoders > kMaxWorkers)) {
    return absl::InvalidArgumentError(
        absl::StrCat("encoders is ", options.encoders, ", must be between 1 and ", kMaxWorkers));
  }
  const int32_t depth = options.backend == Backend::kCuda ? kCudaDepth : 1;
  std::vector<WorkerInfo> workers;
  for (const WorkerSpec& spec :
       SchemePlacement(options.scheme, static_cast<int32_t>(layers.size()),
                       own_encoder ? std::max(options.encoders, 1) : 0, depth)) {
    WorkerInfo& worker = workers.emplace_back();
    worker.spec = spec;
    if (spec.stage < 0) continue;
    worker.first_layer = layers[static_cast<size_t>(spec.stage)].first;
    worker.num_layers = layers[static_cast<size_t>(spec.stage)].count;
  }
  const absl::Status cores = options.worker_cores.empty() ? DealCores(options, usable, &workers)
                                                          : TakeCores(options, usable, &workers);
  if (!cores.ok()) return cores;
  if (absl::Status s = TakeDevices(options, &workers); !s.ok()) return s;
  if (options.worker_threads.empty()) return workers;
  if (options.worker_threads.size() != workers.size()) {
    return WrongLength("worker_threads", options.worker_threads.size(), workers.size());
  }
  for (size_t i = 0; i < workers.size(); ++i) {
    const absl::Status status =
        CheckThreads(absl::StrCat("worker_threads[", i, "]"), options.worker_threads[i]);
    if (!status.ok()) return status;
    workers[i].threads = options.worker_threads[i];
  }
  return workers;
}

}  // namespace rserve::runtime
