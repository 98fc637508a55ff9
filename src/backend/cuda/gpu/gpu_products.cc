#include "src/backend/cuda/gpu/gpu_products.h"

#include <cublasLt.h>

#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"

namespace rserve::cuda {

namespace {

constexpr int64_t kWorkspaceBytes = int64_t{32} << 20;
// The number of rows that deterministic algorithms are chosen at: a full prefill chunk.
constexpr int64_t kTypicalRows = 2048;

absl::Status Explain(const char* what, cublasStatus_t status) {
  return absl::UnavailableError(
      absl::StrCat("cuBLASLt, ", what, ": ", cublasLtGetStatusName(status)));
}

// Owners of cuBLASLt's descriptors.
struct DestroyDescriptor {
  void operator()(cublasLtMatmulDescOpaque_t* p) const { cublasLtMatmulDescDestroy(p); }
  void operator()(cublasLtMatrixLayoutOpaque_t* p) const { cublasLtMatrixLayoutDestroy(p); }
  void operator()(cublasLtMatmulPreferenceOpaque_t* p) const { cublasLtMatmulPreferenceDestroy(p); }
};
using Operation = std::unique_ptr<cublasLtMatmulDescOpaque_t, DestroyDescriptor>;
using Layout = std::unique_ptr<cublasLtMatrixLayoutOpaque_t, DestroyDescriptor>;
using Preference = std::unique_ptr<cublasLtMatmulPreferenceOpaque_t, DestroyDescriptor>;

// What an algorithm depends on. m is 0 in deterministic mode.
struct Key {
  int64_t m, n, k, x_stride, y_stride;
  bool bias, residual, f32;
  template <typename H>
  friend H AbslHashValue(H h, const Key& key) {
    return H::combine(std::move(h), key.m, key.n, key.k, key.x_stride, key.y_stride, key.bias,
                      key.residual, key.f32);
  }
  bool operator==(const Key&) const = default;
};

// cuBLASLt counts columns first: our row-major y = x w^T is its y^T = w x^T, with w transposed.
struct Descriptors {
  Operation operation;
  Layout w, x, y;
};

class GpuProducts final : public Products {
 public:
  GpuProducts(StreamRef stream, bool deterministic, Memory workspace, cublasLtHandle_t handle)
      : stream_(static_cast<cudaStream_t>(stream.handle)),
        deterministic_(deterministic),
        workspace_(std::move(workspace)),
        handle_(handle) {}
  ~GpuProducts() override { cublasLtDestroy(handle_); }

  absl::Status Run(const ProductArgs& args) override {
    Descriptors d;
    if (absl::Status s = Describe(args, args.m, &d); !s.ok()) return s;
    const Key key = {deterministic_ ? 0 : args.m,
                     args.n,
                     args.k,
                     args.x_stride,
                     args.y_stride,
                     args.bias != nullptr,
                     args.residual != nullptr,
                     args.y_f32 != nullptr};
    auto found = algorithms_.find(key);
    if (found == algorithms_.end()) {
      absl::StatusOr<cublasLtMatmulAlgo_t> chosen = Choose(args);
      if (!chosen.ok()) return chosen.status();
      found = algorithms_.emplace(key, *chosen).first;
    }
    const float one = 1.0f, beta = args.residual == nullptr ? 0.0f : 1.0f;
    void* y = args.y_f32 != nullptr ? static_cast<void*>(args.y_f32) : args.y;
    const void* c = args.residual == nullptr ? y : args.residual;
    const cublasStatus_t status =
        cublasLtMatmul(handle_, d.operation.get(), &one, args.w, d.w.get(), args.x, d.x.get(),
                       &beta, c, d.y.get(), y, d.y.get(), &found->second, workspace_.data(),
                       static_cast<size_t>(kWorkspaceBytes), stream_);
    if (status != CUBLAS_STATUS_SUCCESS) return Explain("product", status);
    return absl::OkStatus();
  }

 private:
  absl::Status Describe(const ProductArgs& args, int64_t rows, Descriptors* d) {
    cublasLtMatmulDesc_t operation = nullptr;
    cublasStatus_t status = cublasLtMatmulDescCreate(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    if (status != CUBLAS_STATUS_SUCCESS) return Explain("operation", status);
    d->operation.reset(operation);
    const auto set = [&](cublasLtMatmulDescAttributes_t attribute, const auto& value) {
      if (status != CUBLAS_STATUS_SUCCESS) return;
      status = cublasLtMatmulDescSetAttribute(operation, attribute, &value, sizeof(value));
    };
    set(CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T);
    set(CUBLASLT_MATMUL_DESC_TRANSB, CUBLAS_OP_N);
    if (args.bias != nullptr) {
      set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
      set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, args.bias);
      set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, CUDA_R_16BF);
    }
    if (status != CUBLAS_STATUS_SUCCESS) return Explain("operation", status);
    const auto layout = [&](Layout* out, cudaDataType_t type, int64_t columns, int64_t count,
                            int64_t stride) {
      if (status != CUBLAS_STATUS_SUCCESS) return;
      cublasLtMatrixLayout_t made = nullptr;
      status = cublasLtMatrixLayoutCreate(&made, type, static_cast<uint64_t>(columns),
                                          static_cast<uint64_t>(count), stride);
      out->reset(made);
    };
    layout(&d->w, CUDA_R_16BF, args.k, args.n, args.k);
    layout(&d->x, CUDA_R_16BF, args.k, rows, args.x_stride);
    layout(&d->y, args.y_f32 != nullptr ? CUDA_R_32F : CUDA_R_16BF, args.n, rows, args.y_stride);
    if (status != CUBLAS_STATUS_SUCCESS) return Explain("layout", status);
    return absl::OkStatus();
  }

  absl::StatusOr<cublasLtMatmulAlgo_t> Choose(const ProductArgs& args) {
    Descriptors d;
    if (absl::Status s = Describe(args, deterministic_ ? kTypicalRows : args.m, &d); !s.ok())
      return s;
    cublasLtMatmulPreference_t made = nullptr;
    cublasStatus_t status = cublasLtMatmulPreferenceCreate(&made);
    if (status != CUBLAS_STATUS_SUCCESS) return Explain("preference", status);
    const Preference preference(made);
    const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
      if (status != CUBLAS_STATUS_SUCCESS) return;
      status = cublasLtMatmulPreferenceSetAttribute(made, attribute, &value, sizeof(value));
    };
    set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<size_t>(kWorkspaceBytes));
    if (deterministic_) {
      set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
          static_cast<uint32_t>(CUBLASLT_REDUCTION_SCHEME_NONE));
    }
    // What the caller's rows promise.
    for (auto attribute :
         {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
      set(attribute, uint32_t{16});
    }
    if (status != CUBLAS_STATUS_SUCCESS) return Explain("preference", status);
    cublasLtMatmulHeuristicResult_t result = {};
    int results = 0;
    status = cublasLtMatmulAlgoGetHeuristic(handle_, d.operation.get(), d.w.get(), d.x.get(),
                                            d.y.get(), d.y.get(), made, 1, &result, &results);
    if (status != CUBLAS_STATUS_SUCCESS || results == 0) {
      return absl::UnimplementedError(absl::StrCat("cuBLASLt has no algorithm for a product of ",
                                                   args.m, " x ", args.n, " x ", args.k, ": ",
                                                   cublasLtGetStatusName(status)));
    }
    return result.algo;
  }

  const cudaStream_t stream_;
  const bool deterministic_;
  const Memory workspace_;
  const cublasLtHandle_t handle_;
  absl::flat_hash_map<Key, cublasLtMatmulAlgo_t> algorithms_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Products>> MakeGpuProducts(Device* device, StreamRef stream,
                                                          bool deterministic) {
  absl::StatusOr<Memory> workspace = Memory::Make(device, Memory::Kind::kDevice, kWorkspaceBytes);
  if (!workspace.ok()) return workspace.status();
  cublasLtHandle_t handle = nullptr;
  if (const cublasStatus_t status = cublasLtCreate(&handle); status != CUBLAS_STATUS_SUCCESS) {
    return Explain("start", status);
  }
  return std::unique_ptr<Products>(
      std::make_unique<GpuProducts>(stream, deterministic, *std::move(workspace), handle));
}

}  // namespace rserve::cuda
