#include "src/backend/cuda/host/host_products.h"

#include <bit>
#include <vector>

#include "absl/strings/str_cat.h"
#include "src/model/weights/half.h"

namespace rserve::cuda {

namespace {

float Widen(Bf16 v) { return std::bit_cast<float>(uint32_t{v.bits} << 16); }

void Multiply(const ProductArgs& args) {
  const auto n = static_cast<size_t>(args.n), k = static_cast<size_t>(args.k);
  // Transposed, so that the inner loop runs over columns and each sum keeps the order of k.
  std::vector<float> w(n * k), row(k), sum(n);
  for (size_t j = 0; j < n; ++j) {
    for (size_t i = 0; i < k; ++i) w[i * n + j] = Widen(args.w[j * k + i]);
  }
  for (int64_t m = 0; m < args.m; ++m) {
    for (size_t i = 0; i < k; ++i) row[i] = Widen(args.x[m * args.x_stride + int64_t(i)]);
    sum.assign(n, 0.0f);
    for (size_t i = 0; i < k; ++i) {
      const float x = row[i];
      const float* column = w.data() + i * n;
      for (size_t j = 0; j < n; ++j) sum[j] += x * column[j];
    }
    for (size_t j = 0; j < n; ++j) {
      const int64_t at = m * args.y_stride + static_cast<int64_t>(j);
      float value = sum[j];
      if (args.bias != nullptr) value += Widen(args.bias[j]);
      if (args.residual != nullptr) value += Widen(args.residual[at]);
      if (args.y_f32 != nullptr) {
        args.y_f32[at] = value;
      } else {
        args.y[at] = {model::F32ToBF16(value)};
      }
    }
  }
}

}  // namespace

absl::Status HostProducts::Run(const ProductArgs& args) {
  const bool one_output = (args.y == nullptr) != (args.y_f32 == nullptr);
  if (args.m < 1 || args.n < 8 || args.k < 8 || args.n % 8 != 0 || args.k % 8 != 0 ||
      args.x_stride < args.k || args.y_stride < args.n || !one_output ||
      (args.y_f32 != nullptr && args.residual != nullptr) ||
      !kernels::cuda::Aligned16(args.x, args.x_stride) || !kernels::cuda::Aligned16(args.w, 0) ||
      !kernels::cuda::Aligned16(args.y, args.y_stride) ||
      !kernels::cuda::Aligned16(args.y_f32, args.y_stride) ||
      !kernels::cuda::Aligned16(args.bias, 0)) {
    return absl::InvalidArgumentError(
        absl::StrCat("a product of ", args.m, " x ", args.n, " x ", args.k, " with strides ",
                     args.x_stride, " and ", args.y_stride, " is not what a tensor core takes"));
  }
  stream_->Enqueue([args] { Multiply(args); });
  return absl::OkStatus();
}

}  // namespace rserve::cuda
