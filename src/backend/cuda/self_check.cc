#include "src/backend/cuda/self_check.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/backend/cuda/carver.h"
#include "src/backend/cuda/queue.h"
#include "src/model/weights/half.h"

namespace rserve::cuda {

namespace {

constexpr int64_t kRows = 200;
// Parts that begin and end inside tiles of any size, and a row alone.
constexpr struct { int64_t begin, count; } kParts[] = {{0, 1}, {37, 64}, {150, 50}, {199, 1}};

// Numbers in [-1, 1) that no simple pattern repeats.
void FillRows(int64_t count, Bf16* out) {
  uint32_t x = 2463534242u;
  for (int64_t i = 0; i < count; ++i) {
    x ^= x << 13;
    x ^= x >> 17;
    x ^= x << 5;
    out[i] = {model::F32ToBF16(static_cast<float>(static_cast<int32_t>(x)) * 0x1p-31f)};
  }
}

class Check {
 public:
  Check(Timeline* timeline, int64_t n, int64_t k) : timeline_(timeline), n_(n), k_(k) {}

  absl::Status Init() {
    Carver count(nullptr);
    LayOut(&count);
    auto memory = Memory::Make(timeline_->device(), Memory::Kind::kDevice, count.bytes());
    if (!memory.ok()) return memory.status();
    memory_ = *std::move(memory);
    Carver carve(memory_.data());
    LayOut(&carve);
    auto pinned = Memory::Make(timeline_->device(), Memory::Kind::kPinned,
                               kRows * std::max(k_ * 2, 2 * n_ * 4));
    if (!pinned.ok()) return pinned.status();
    pinned_ = *std::move(pinned);
    FillRows(kRows * std::max(n_, k_), static_cast<Bf16*>(pinned_.data()));
    Queue queue(timeline_);
    queue.Copy(x_, pinned_.data(), kRows * k_ * 2);
    queue.Copy(residual_, pinned_.data(), kRows * n_ * 2);
    return queue.Finish();
  }

  absl::Status Run(const CheckedProduct& product) {
    const Matrix& matrix = *product.matrix;
    const int64_t row_bytes = matrix.n * (product.f32 ? 4 : 2);
    auto* host = static_cast<uint8_t*>(pinned_.data());
    uint8_t* part_host = host + kRows * row_bytes;
    if (absl::Status s = Multiply(product, 0, kRows, host); !s.ok()) return s;
    for (const auto& part : kParts) {
      if (absl::Status s = Multiply(product, part.begin, part.count, part_host); !s.ok()) return s;
      if (std::memcmp(host + part.begin * row_bytes, part_host,
                      static_cast<size_t>(part.count * row_bytes)) != 0) {
        return absl::FailedPreconditionError(
            absl::StrCat("deterministic: rows ", part.begin, " .. ", part.begin + part.count - 1,
                         " of a product with a weight of ", matrix.n, " x ", matrix.k,
                         " differ when they are computed without the others"));
      }
    }
    return absl::OkStatus();
  }

 private:
  void LayOut(Carver* carver) {
    x_ = carver->Take<Bf16>(kRows * k_);
    residual_ = carver->Take<Bf16>(kRows * n_);
    y_ = carver->Take<float>(kRows * n_);
  }

  // Rows [begin, begin + rows) into `host`.
  absl::Status Multiply(const CheckedProduct& product, int64_t begin, int64_t rows, uint8_t* host) {
    const Matrix& m = *product.matrix;
    ProductArgs args = m.Args(rows, x_ + begin * m.k, m.k, reinterpret_cast<Bf16*>(y_), m.n);
    if (product.residual) args.residual = residual_ + begin * m.n;
    if (product.f32) {
      args.y = nullptr;
      args.y_f32 = y_;
    }
    Queue queue(timeline_);
    queue.Product(args);
    queue.Copy(host, y_, rows * m.n * (product.f32 ? 4 : 2));
    return queue.Finish();
  }

  Timeline* const timeline_;
  const int64_t n_, k_;  // the largest of all products
  Memory memory_, pinned_;
  Bf16* x_ = nullptr;
  Bf16* residual_ = nullptr;
  float* y_ = nullptr;
};

}  // namespace

absl::Status CheckRowExact(Timeline* timeline, const std::vector<CheckedProduct>& products) {
  int64_t n = 8, k = 8;
  for (const CheckedProduct& product : products) {
    n = std::max(n, product.matrix->n);
    k = std::max(k, product.matrix->k);
  }
  Check check(timeline, n, k);
  if (absl::Status s = check.Init(); !s.ok()) return s;
  for (const CheckedProduct& product : products) {
    if (absl::Status s = check.Run(product); !s.ok()) return s;
  }
  return absl::OkStatus();
}

}  // namespace rserve::cuda
