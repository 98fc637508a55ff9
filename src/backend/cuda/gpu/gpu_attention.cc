#include "src/backend/cuda/gpu/gpu_attention.h"

#include <cudnn_graph.h>
#include <dlfcn.h>

#include <type_traits>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"

namespace rserve::cuda {

namespace {

using kernels::cuda::AttentionArgs;

constexpr char kCudnnLibrary[] = "libcudnn.so.9";
constexpr size_t kOldest = 91300;  // the first whose attention is one operation
constexpr int64_t kWorkspaceBytes = int64_t{16} << 20;
constexpr size_t kMaxPlans = 64;
enum Tensor : int64_t { kQ = 1, kK, kV, kOut, kScale, kTensors = kScale };

struct Cudnn {
  decltype(&cudnnGetVersion) version = nullptr;
  decltype(&cudnnCreate) create = nullptr;
  decltype(&cudnnDestroy) destroy = nullptr;
  decltype(&cudnnSetStream) set_stream = nullptr;
  decltype(&cudnnGetErrorString) explain = nullptr;
  decltype(&cudnnBackendCreateDescriptor) make = nullptr;
  decltype(&cudnnBackendDestroyDescriptor) drop = nullptr;
  decltype(&cudnnBackendSetAttribute) set = nullptr;
  decltype(&cudnnBackendGetAttribute) get = nullptr;
  decltype(&cudnnBackendFinalize) finalize = nullptr;
  decltype(&cudnnBackendExecute) execute = nullptr;
};

absl::StatusOr<Cudnn> OpenCudnn() {
  void* library = dlopen(kCudnnLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return absl::UnavailableError(absl::StrCat("cuDNN cannot be opened: ", dlerror()));
  }
  Cudnn c;
  bool all = true;
  const auto find = [&](const char* name, auto* function) {
    *function = reinterpret_cast<std::remove_pointer_t<decltype(function)>>(dlsym(library, name));
    all = all && *function != nullptr;
  };
  find("cudnnGetVersion", &c.version);
  find("cudnnCreate", &c.create);
  find("cudnnDestroy", &c.destroy);
  find("cudnnSetStream", &c.set_stream);
  find("cudnnGetErrorString", &c.explain);
  find("cudnnBackendCreateDescriptor", &c.make);
  find("cudnnBackendDestroyDescriptor", &c.drop);
  find("cudnnBackendSetAttribute", &c.set);
  find("cudnnBackendGetAttribute", &c.get);
  find("cudnnBackendFinalize", &c.finalize);
  find("cudnnBackendExecute", &c.execute);
  if (!all) return absl::UnavailableError(absl::StrCat(kCudnnLibrary, " lacks a function"));
  if (c.version() < kOldest) {
    return absl::UnavailableError(absl::StrCat("cuDNN ", c.version(), " is older than ", kOldest,
                                               ", the first with one operation for attention"));
  }
  return c;
}

// Descriptors of one plan. The first failure stays, and later calls do nothing.
class Builder {
 public:
  explicit Builder(const Cudnn& cudnn) : cudnn_(cudnn) {}
  Builder(Builder&& other) = delete;
  ~Builder() {
    while (!made_.empty()) {
      cudnn_.drop(made_.back());
      made_.pop_back();
    }
  }

  cudnnBackendDescriptor_t Make(cudnnBackendDescriptorType_t type) {
    cudnnBackendDescriptor_t made = nullptr;
    if (status_ != CUDNN_STATUS_SUCCESS) return made;
    status_ = cudnn_.make(type, &made);
    if (status_ == CUDNN_STATUS_SUCCESS) made_.push_back(made);
    return made;
  }
  void Set(cudnnBackendDescriptor_t to, cudnnBackendAttributeName_t name,
           cudnnBackendAttributeType_t type, int64_t count, const void* values) {
    if (status_ == CUDNN_STATUS_SUCCESS) status_ = cudnn_.set(to, name, type, count, values);
  }
  void SetPart(cudnnBackendDescriptor_t to, cudnnBackendAttributeName_t name,
               cudnnBackendDescriptor_t part) {
    Set(to, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &part);
  }
  void Finalize(cudnnBackendDescriptor_t what) {
    if (status_ == CUDNN_STATUS_SUCCESS) status_ = cudnn_.finalize(what);
  }
  void Get(cudnnBackendDescriptor_t from, cudnnBackendAttributeName_t name,
           cudnnBackendAttributeType_t type, int64_t room, int64_t* count, void* values) {
    if (status_ == CUDNN_STATUS_SUCCESS)
      status_ = cudnn_.get(from, name, type, room, count, values);
  }
  // A plan that could not be finished: the next one may be tried.
  bool Recover() {
    const bool failed = status_ != CUDNN_STATUS_SUCCESS;
    status_ = CUDNN_STATUS_SUCCESS;
    return failed;
  }
  cudnnStatus_t status() const { return status_; }

  cudnnBackendDescriptor_t MakeTensor(int64_t id, const int64_t (&sizes)[4],
                                      const int64_t (&strides)[4]) {
    const bool number = id == kScale;  // on the host
    const cudnnDataType_t type = number ? CUDNN_DATA_FLOAT : CUDNN_DATA_BFLOAT16;
    const int64_t alignment = number ? 4 : 16;
    cudnnBackendDescriptor_t tensor = Make(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    Set(tensor, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    Set(tensor, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, sizes);
    Set(tensor, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, strides);
    Set(tensor, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id);
    Set(tensor, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
    if (number) Set(tensor, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &number);
    Finalize(tensor);
    return tensor;
  }

 private:
  const Cudnn& cudnn_;
  cudnnStatus_t status_ = CUDNN_STATUS_SUCCESS;
  std::vector<cudnnBackendDescriptor_t> made_;
};

// What a plan depends on.
struct Key {
  int64_t segments, length, heads, dim, stride, head_stride, out_stride;
  template <typename H>
  friend H AbslHashValue(H h, const Key& k) {
    return H::combine(std::move(h), k.segments, k.length, k.heads, k.dim, k.stride, k.head_stride,
                      k.out_stride);
  }
  bool operator==(const Key&) const = default;
};

class GpuAttention final : public FusedAttention {
 public:
  GpuAttention(const Cudnn& cudnn, cudnnHandle_t handle, Memory workspace)
      : cudnn_(cudnn), handle_(handle), workspace_(std::move(workspace)) {}
  ~GpuAttention() override {
    plans_.clear();
    cudnn_.destroy(handle_);
  }

  absl::Status Run(const AttentionArgs& args, int64_t segments, int64_t length) override {
    const Key key = {segments,      length,           args.kv_heads,  args.head_dim,
                     args.q_stride, args.head_stride, args.out_stride};
    auto found = plans_.find(key);
    if (found == plans_.end()) {
      if (plans_.size() == kMaxPlans) return absl::UnimplementedError("cuDNN: too many sizes");
      // Also where none could be made, so that it is not tried again.
      found = plans_.emplace(key, Plan{std::make_unique<Builder>(cudnn_)}).first;
      Build(key, args.q_stride != args.kv_stride || args.group != 1, &found->second);
    }
    const Plan& plan = found->second;
    if (plan.plan == nullptr)
      return absl::UnimplementedError("cuDNN has no attention of this size");
    return Execute(args, plan.plan);
  }

 private:
  struct Plan {
    std::unique_ptr<Builder> parts;  // keeps what the plan refers to
    cudnnBackendDescriptor_t plan = nullptr;
  };

  void Build(const Key& key, bool other_layout, Plan* out) {
    if (other_layout) return;
    Builder& b = *out->parts;
    const int64_t sizes[4] = {key.segments, key.heads, key.length, key.dim};
    const int64_t in[4] = {key.length * key.stride, key.head_stride, key.stride, 1};
    const int64_t to[4] = {key.length * key.out_stride, key.head_stride, key.out_stride, 1};
    constexpr int64_t kOnes[4] = {1, 1, 1, 1};
    cudnnBackendDescriptor_t attend = b.Make(CUDNN_BACKEND_OPERATION_SDPA_FWD_DESCRIPTOR);
    b.SetPart(attend, CUDNN_ATTR_OPERATION_SDPA_FWD_QDESC, b.MakeTensor(kQ, sizes, in));
    b.SetPart(attend, CUDNN_ATTR_OPERATION_SDPA_FWD_KDESC, b.MakeTensor(kK, sizes, in));
    b.SetPart(attend, CUDNN_ATTR_OPERATION_SDPA_FWD_VDESC, b.MakeTensor(kV, sizes, in));
    b.SetPart(attend, CUDNN_ATTR_OPERATION_SDPA_FWD_ODESC, b.MakeTensor(kOut, sizes, to));
    b.SetPart(attend, CUDNN_ATTR_OPERATION_SDPA_FWD_SCALEDESC, b.MakeTensor(kScale, kOnes, kOnes));
    b.Finalize(attend);
    cudnnBackendDescriptor_t graph = b.Make(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    b.SetPart(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, attend);
    b.Set(graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle_);
    b.Finalize(graph);
    cudnnBackendDescriptor_t heuristics = b.Make(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    b.SetPart(heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
    const cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A;
    b.Set(heuristics, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    b.Finalize(heuristics);
    constexpr int64_t kChoices = 4;
    cudnnBackendDescriptor_t choices[kChoices];
    for (cudnnBackendDescriptor_t& choice : choices) {
      choice = b.Make(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    }
    int64_t count = 0;
    b.Get(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, kChoices,
          &count, choices);
    if (b.status() != CUDNN_STATUS_SUCCESS) return;
    // The first, in the library's own order, that can be made and needs little memory.
    for (int64_t i = 0; i < count && out->plan == nullptr; ++i) {
      cudnnBackendDescriptor_t plan = b.Make(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
      b.Set(plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle_);
      b.SetPart(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, choices[i]);
      b.Finalize(plan);
      int64_t bytes = 0, one = 0;
      b.Get(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &one, &bytes);
      if (!b.Recover() && bytes <= kWorkspaceBytes) out->plan = plan;
    }
  }

  absl::Status Execute(const AttentionArgs& args, cudnnBackendDescriptor_t plan) {
    Builder b(cudnn_);
    float scale = args.scale;
    constexpr int64_t kIds[kTensors] = {kQ, kK, kV, kOut, kScale};
    const void* const data[kTensors] = {args.q, args.k, args.v, args.out, &scale};
    void* const workspace = workspace_.data();
    cudnnBackendDescriptor_t pack = b.Make(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    b.Set(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, kTensors, kIds);
    b.Set(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, kTensors, data);
    b.Set(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace);
    b.Finalize(pack);
    cudnnStatus_t status = b.status();
    if (status == CUDNN_STATUS_SUCCESS) status = cudnn_.execute(handle_, plan, pack);
    if (status == CUDNN_STATUS_SUCCESS) return absl::OkStatus();
    return absl::UnavailableError(absl::StrCat("cuDNN, attention: ", cudnn_.explain(status)));
  }

  const Cudnn cudnn_;
  const cudnnHandle_t handle_;
  const Memory workspace_;
  absl::flat_hash_map<Key, Plan> plans_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<FusedAttention>> MakeGpuAttention(Device* device, StreamRef stream) {
  const absl::StatusOr<Cudnn> cudnn = OpenCudnn();
  if (!cudnn.ok()) return cudnn.status();
  absl::StatusOr<Memory> workspace = Memory::Make(device, Memory::Kind::kDevice, kWorkspaceBytes);
  if (!workspace.ok()) return workspace.status();
  cudnnHandle_t handle = nullptr;
  cudnnStatus_t status = cudnn->create(&handle);
  if (status == CUDNN_STATUS_SUCCESS) {
    status = cudnn->set_stream(handle, static_cast<cudaStream_t>(stream.handle));
  }
  if (status != CUDNN_STATUS_SUCCESS) {
    if (handle != nullptr) cudnn->destroy(handle);
    return absl::UnavailableError(absl::StrCat("cuDNN, start: ", cudnn->explain(status)));
  }
  return std::unique_ptr<FusedAttention>(
      std::make_unique<GpuAttention>(*cudnn, handle, *std::move(workspace)));
}

}  // namespace rserve::cuda
