#include "src/backend/cuda/image_builder.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/model/weights/half.h"

namespace rserve::cuda {

namespace {

constexpr int64_t kAlignment = 256 / static_cast<int64_t>(sizeof(Bf16));
// A piece of the image on its way through pinned memory.
constexpr int64_t kPieceBytes = int64_t{32} << 20;

}  // namespace

std::vector<Run> HeadRuns(int64_t first, int64_t target, int64_t heads, int64_t width) {
  std::vector<Run> runs;
  for (int64_t h = 0; h < heads; ++h) {
    runs.push_back({(first + h) * width, (target + h) * Padded(width), width});
  }
  return runs;
}

bool ImageBuilder::Get(const std::string& name, const std::vector<int64_t>& shape,
                       model::TensorView* view) {
  if (!status_.ok()) return false;
  absl::StatusOr<model::TensorView> found = checkpoint_.Get(name, shape);
  if (!found.ok()) {
    status_ = found.status();
    return false;
  }
  *view = *std::move(found);
  return true;
}

int64_t ImageBuilder::Append(int64_t elements) {
  const auto offset = static_cast<int64_t>(image_.size());
  image_.resize(
      static_cast<size_t>(offset + (elements + kAlignment - 1) / kAlignment * kAlignment));
  return offset;
}

void ImageBuilder::CopyRow(const model::TensorView& view, int64_t from, int64_t count, Bf16* to) {
  if (view.dtype == model::DType::kBF16) {
    std::memcpy(to, view.data + from * 2, static_cast<size_t>(count) * 2);
    return;
  }
  widened_.resize(static_cast<size_t>(count));
  model::WidenToF32(view, from, count, widened_.data());
  for (int64_t i = 0; i < count; ++i) {
    to[i] = {model::F32ToBF16(widened_[static_cast<size_t>(i)])};
  }
}

void ImageBuilder::Vector(const std::string& name, int64_t size, const Bf16** out) {
  model::TensorView view;
  if (!Get(name, {size}, &view)) return;
  const int64_t offset = Append(Padded(size));
  CopyRow(view, 0, size, image_.data() + offset);
  pointers_.push_back({out, offset});
}

void ImageBuilder::Matrix(const std::vector<RowSource>& sources, int64_t n, int64_t columns,
                          const std::vector<Run>& column_runs, int64_t k, bool has_bias,
                          cuda::Matrix* out, const std::vector<int64_t>& shape_tail) {
  if (!status_.ok()) return;
  out->n = n;
  out->k = k;
  const int64_t weights = Append(n * k);
  const int64_t biases = has_bias ? Append(n) : 0;
  for (const RowSource& source : sources) {
    std::vector<int64_t> shape = {source.rows};
    if (shape_tail.empty()) {
      shape.push_back(columns);
    } else {
      shape.insert(shape.end(), shape_tail.begin(), shape_tail.end());
    }
    model::TensorView view, bias;
    if (!Get(absl::StrCat(source.name, ".weight"), shape, &view)) return;
    if (has_bias && !Get(absl::StrCat(source.name, ".bias"), {source.rows}, &bias)) return;
    for (const Run& run : source.runs) {
      for (int64_t r = 0; r < run.count; ++r) {
        Bf16* row = image_.data() + weights + (run.to + r) * k;
        for (const Run& part : column_runs) {
          CopyRow(view, (run.from + r) * columns + part.from, part.count, row + part.to);
        }
      }
      if (has_bias) CopyRow(bias, run.from, run.count, image_.data() + biases + run.to);
    }
  }
  pointers_.push_back({&out->w, weights});
  if (has_bias) pointers_.push_back({&out->bias, biases});
}

absl::Status ImageBuilder::Send(Timeline* timeline, Memory* memory) {
  if (!status_.ok()) return status_;
  Device* device = timeline->device();
  absl::StatusOr<Memory> made = Memory::Make(device, Memory::Kind::kDevice, bytes());
  if (!made.ok()) return made.status();
  absl::StatusOr<Memory> pinned =
      Memory::Make(device, Memory::Kind::kPinned, std::min(kPieceBytes, bytes()));
  if (!pinned.ok()) return pinned.status();
  auto* to = static_cast<uint8_t*>(made->data());
  const auto* from = reinterpret_cast<const uint8_t*>(image_.data());
  for (int64_t at = 0; at < bytes(); at += kPieceBytes) {
    const int64_t count = std::min(kPieceBytes, bytes() - at);
    std::memcpy(pinned->data(), from + at, static_cast<size_t>(count));
    if (absl::Status s = device->Copy(to + at, pinned->data(), count, timeline->stream()); !s.ok())
      return s;
    if (absl::Status s = timeline->Finish(); !s.ok()) return s;
  }
  for (const Pointer& pointer : pointers_) {
    *pointer.to = static_cast<const Bf16*>(made->data()) + pointer.offset;
  }
  *memory = *std::move(made);
  return absl::OkStatus();
}

}  // namespace rserve::cuda
